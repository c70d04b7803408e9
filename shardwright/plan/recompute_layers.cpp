#include "shardwright/plan/recompute_layers.h"

#include <algorithm>
#include <map>

#include "shardwright/base/text.h"
#include "shardwright/plan/repeated_modules.h"
#include "shardwright/plan/set_words.h"

namespace shardwright {
namespace {

using Modules = std::vector<RecomputedModule>;

/// Of one stage those that are computed again, or of a mode that does less the others, which are kept.
Modules first_layers(const Recompute& recompute, const std::vector<std::string_view>& all,
                     std::size_t wanted) {
  Modules out;
  const bool is_full = recompute.mode == RecomputeMode::full;
  const std::size_t begin = is_full ? 0 : std::min(wanted, all.size());
  const std::size_t end = is_full ? std::min(wanted, all.size()) : all.size();
  for (std::size_t l = begin; l < end; ++l)
    out.push_back({.module = std::string(all[l]),
                   .nodes = {},
                   .options = is_full ? recompute.options : RecomputeOptions{},
                   .is_on = is_full});
  return out;
}

/// Of one stage so many in a row as one module: `layers.4-5 together`. What has no name of its own is kept.
Modules layers_together(const Recompute& recompute, const std::vector<std::string_view>& all,
                        const std::vector<NamedOperator>& operators, std::size_t together) {
  std::map<std::string_view, std::vector<std::string>> of_module;
  for (const NamedOperator& op : operators)
    if (!is_number(op.own_name)) of_module[repeated_module_of(op.name)].emplace_back(op.own_name);
  Modules out;
  for (std::size_t l = 0; l < all.size(); l += together) {
    const std::size_t end = std::min(l + together, all.size());
    const std::string_view last = all[end - 1];
    const std::string name =
        end - l == 1 ? std::string(last)
                     : fmt::format("{}-{} together", all[l], last.substr(last.find_last_of("./") + 1));
    RecomputedModule& group =
        out.emplace_back(RecomputedModule{.module = name, .nodes = {}, .options = recompute.options});
    for (std::size_t m = l; m < end; ++m) {
      const std::vector<std::string>& more = of_module[all[m]];
      group.nodes.insert(group.nodes.end(), more.begin(), more.end());
    }
  }
  return out;
}

}  // namespace

Recompute of_layers(Recompute recompute, const std::vector<Graph>& stages, const LayersAgain& layers) {
  const std::string said = fmt::format("recompute_layers={}", numbers_text(layers.first));
  const std::size_t numbers = layers.first.size();
  if (numbers > 1 && numbers != stages.size())
    throw error("{}: {} numbers, but there are {} stages, chunks counted", said, numbers, stages.size());
  std::size_t count = 0;
  Modules modules;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::vector<NamedOperator> operators = named_operators(stages[s]);
    const std::vector<std::string_view> all = repeated_modules(operators);
    count += all.size();
    const auto wanted = static_cast<std::size_t>(numbers == 0 ? 0 : layers.first[numbers == 1 ? 0 : s]);
    if (wanted > all.size() && numbers > 1) throw error("{}: stage {} has {} layers", said, s, all.size());
    const Modules own =
        numbers > 0 ? by_name(first_layers(recompute, all, wanted), stages[s])
                    : layers_together(recompute, all, operators, static_cast<std::size_t>(layers.together));
    modules.insert(modules.end(), own.begin(), own.end());
  }
  if (count == 0)
    throw error("{}: the network has no layers, modules that repeat",
                numbers > 0 ? said : fmt::format("recompute_together={}", layers.together));
  recompute = with_modules(std::move(recompute), modules);
  if (recompute.mode == RecomputeMode::full) recompute.mode = RecomputeMode::none, recompute.options = {};
  return recompute;
}

}  // namespace shardwright
