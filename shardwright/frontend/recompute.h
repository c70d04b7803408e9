// Recompute from C++: what a module or function of traced values makes inside is dropped after the forward and computed
// again in the backward; its inputs and results are kept.
//
//   Traced y = recompute(net.layers[0])(x);                                    // the same value as net.layers[0](x)
//   Traced z = recompute(net.head, {.communication = false})(y);
//
// The plan names the operators inside as one region (plan/recompute.h). Regions do not nest.
#pragma once

#include <concepts>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shardwright/frontend/shard.h"
#include "shardwright/plan/recompute.h"

namespace shardwright {

struct RecomputedOptions {
  bool communication = true;  // as in RecomputeOptions
  bool shard_kept = false;
  std::string name = "";  // of the region, in plans and errors; empty: what the names inside begin with
};

/// What recompute() does when it is called. Throws: Error naming the region if another lies inside, or if it is empty.
std::vector<Traced> call_recomputed(const TracedFunction& function, const std::vector<Traced>& inputs,
                                    const RecomputedOptions& options);

/// `function` (of Traced values; its result is one, or a vector of them), recomputed. What is given by name is referred
/// to, not copied: its parameters stay the same objects.
template <class F>
auto recompute(F&& function, RecomputedOptions options = {}) {
  return [held = std::tuple<F>(std::forward<F>(function)),
          options = std::move(options)](const std::same_as<Traced> auto&... x) {
    const auto call = [&]<std::size_t... I>(const std::vector<Traced>& in, std::index_sequence<I...>) {
      return std::get<0>(held)(in[I]...);
    };
    const auto indices = std::make_index_sequence<sizeof...(x)>{};
    if constexpr (std::convertible_to<decltype(call({}, indices)), Traced>)
      return call_recomputed(
                 [&](const std::vector<Traced>& in) { return std::vector<Traced>{call(in, indices)}; },
                 {x...}, options)
          .front();
    else
      return call_recomputed([&](const std::vector<Traced>& in) { return call(in, indices); }, {x...},
                             options);
  };
}

}  // namespace shardwright
