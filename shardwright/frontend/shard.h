// Functional sharding: how values lie at the edge of a module or function, and how its parameters lie; the strategies
// inside are found, except where operators inside are annotated themselves.
//
//   const DeviceLayout layout({2, 4}, {"dp", "tp"});
//   const auto block = shard(net.block, {.in = {layout("dp", "None")}, .out = {{8, 1}},
//                                        .parameters = {{"dense1.weight", layout("None", "tp")}}, .name = "block"});
//   Traced y = block(x);                                  // the same shapes as net.block(x)
//   y = reshard(y, layout("None", "tp"), "by_columns");   // one value
//
// An edge is an operator `reshard` in the graph, y = x, whose strategy is fixed: `block.in0`, `block.out0`. Plans and
// annotation files speak of it by that name; programs hold only the redistribution that it causes. Regions may
// nest: each keeps its edges. A parameter lies in one way, so two regions that say different things are an error.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shardwright/frontend/operator.h"

namespace shardwright {

/// The value itself; who reads the result finds it in this layout. Its gradient has no layout of its own.
/// `name` is the node's; by default that of the value with `.reshard` behind.
Traced reshard(Traced x, const Split& layout, std::string_view name = "");

struct ShardOptions {
  std::vector<Split> in = {};                    // one per input, `{}` where it is free; or none at all
  std::vector<Split> out = {};                   // the same for results
  std::map<std::string, Split> parameters = {};  // by name, or by as much of its end as is unique inside
  std::string name = "sharded";                  // of the region, in plans and errors
};

using TracedFunction = std::function<std::vector<Traced>(const std::vector<Traced>&)>;

/// What shard() does when it is called. Throws: Error naming the region and the input, result or parameter that
/// does not exist or has another number of dims, or a parameter that lies differently elsewhere.
std::vector<Traced> call_sharded(const TracedFunction& function, const std::vector<Traced>& inputs,
                                 const ShardOptions& options);

/// `function` (of Traced values; its result is one, or a vector of them) with the layouts of `options`. What is
/// given by name is referred to, not copied: its parameters stay the same objects.
template <class F>
auto shard(F&& function, ShardOptions options) {
  return [held = std::tuple<F>(std::forward<F>(function)),
          options = std::move(options)](const std::same_as<Traced> auto&... x) {
    const auto call = [&]<std::size_t... I>(const std::vector<Traced>& in, std::index_sequence<I...>) {
      return std::get<0>(held)(in[I]...);
    };
    const auto indices = std::make_index_sequence<sizeof...(x)>{};
    if constexpr (std::convertible_to<decltype(call({}, indices)), Traced>)
      return call_sharded(
                 [&](const std::vector<Traced>& in) { return std::vector<Traced>{call(in, indices)}; },
                 {x...}, options)
          .front();
    else
      return call_sharded([&](const std::vector<Traced>& in) { return call(in, indices); }, {x...}, options);
  };
}

}  // namespace shardwright
