#include "shardwright/search/space/candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/uneven.h"

namespace shardwright::space {
namespace {

bool keeps_parameters_whole(const Graph& graph, const Node& node, const Rule& rule,
                            const Strategy& strategy) {
  const NodeLayouts layouts = layouts_of(rule, strategy);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Node& producer = graph.node(graph.value(node.operands[i]).producer);
    if (producer.op->kind == OpKind::parameter && !layouts.operands[i].is_replicated()) return false;
  }
  return true;
}

/// The last two dims of each part, where they are split, are multiples of `size`.
bool is_aligned(const Rule& rule, const Strategy& strategy, const Mesh& mesh, std::int64_t size) {
  constexpr std::size_t last = 2;
  for (const auto* side : {&rule.operands, &rule.results})
    for (const RuleTensor& tensor : *side)
      for (std::size_t d = tensor.dims.size() - std::min(last, tensor.dims.size()); d < tensor.dims.size();
           ++d) {
        std::int64_t extent = 1, parts = 1;
        for (int l : tensor.dims[d]) {
          extent *= rule.loops[at(l)].size;
          parts *= mesh.count(strategy.loops[at(l)]);
        }
        if (parts > 1 && extent / parts % size) return false;
      }
  return true;
}

/// Axes up to `first` split one loop dim, those behind another one; either may split nothing.
std::vector<Strategy> strategies_in_blocks(const Rule& rule, const Mesh& mesh) {
  const int loops = static_cast<int>(rule.loops.size());
  std::set<Strategy> out;
  for (int first = 0; first <= mesh.axis_count(); ++first)
    for (int major = -1; major < loops; ++major)
      for (int minor = -1; minor < loops; ++minor) {
        Strategy s = whole(rule);
        if (major >= 0) s.loops[at(major)] = mesh.all_axes().prefix(first);
        if (minor >= 0)
          s.loops[at(minor)] = s.loops[at(minor)].with(mesh.all_axes().suffix(mesh.axis_count() - first));
        if (!violation_if_even(rule, s, mesh)) out.insert(std::move(s));
      }
  out.erase(whole(rule));
  return {out.begin(), out.end()};
}

}  // namespace

std::vector<Strategy> approximated(const std::vector<Strategy>& strategies, std::span<const double> cost,
                                   double approximation) {
  // Before the cast: 1 / approximation may be more than any integer.
  const auto all = static_cast<double>(strategies.size());
  const auto most = static_cast<std::size_t>(std::clamp(std::ceil(1 / approximation - 1e-9), 1.0, all));
  if (strategies.size() <= most) return strategies;
  std::vector<std::size_t> order(strategies.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return cost[i]; });
  std::vector<Strategy> out{strategies.front()};
  const std::size_t step = order.size() / most;
  for (std::size_t n = 0; n < most; ++n)
    if (const std::size_t i = order[n * step]; i != 0) out.push_back(strategies[i]);
  return out;
}

SearchResult among_some_or_all(
    const SearchOptions& options,
    const std::function<std::optional<SearchResult>(const SearchOptions&)>& search) {
  if (!options.approximates) return *search(options);
  if (std::optional<SearchResult> found = search(options)) return std::move(*found);
  SearchOptions all = options;
  all.approximates = false;
  SearchResult out = *search(all);
  out.compared += "; all strategies of each, as of some of them none follow";
  return out;
}

bool is_allowed(const Problem& problem, const FixedChoices& fixed, NodeId id, const Rule& rule,
                const Strategy& strategy, const SearchOptions& options) {
  const Mesh& mesh = fixed.meshes[at(strategy.mesh)];
  if (options.aligns_slices && !is_aligned(rule, strategy, mesh, options.slice_size)) return false;
  if (options.fully_use_devices && !is_all_or_nothing(strategy, mesh)) return false;
  return !problem.parameters_stay_whole ||
         keeps_parameters_whole(*problem.graph, problem.graph->node(id), rule, strategy);
}

std::vector<Strategy> strategies_on(const Rule& rule, const Mesh& mesh, int index, const Listed& listed) {
  std::vector<Strategy> out{whole(rule)};
  if (mesh.axis_count() <= listed.most_axes)
    out = legal_strategies(rule, mesh, {.linear = false, .all_orders = listed.all_orders});
  else if (listed.in_blocks)
    std::ranges::copy(strategies_in_blocks(rule, mesh), std::back_inserter(out));
  for (Strategy& s : out) s.mesh = used_axes(s).empty() ? 0 : index;
  return out;
}

std::vector<Strategy> candidates_of(const Problem& problem, const FixedChoices& fixed, NodeId id,
                                    const Rule& rule, const SearchOptions& options, const Listed& listed) {
  if (const auto& own = fixed.strategies[at(id.index)]) return {*own};
  std::vector<Strategy> out;
  for (std::size_t m = 0; m < fixed.meshes.size(); ++m)
    for (Strategy& s : strategies_on(rule, fixed.meshes[m], static_cast<int>(m), listed))
      if ((m == 0 || s.mesh > 0) && is_allowed(problem, fixed, id, rule, s, options))
        out.push_back(std::move(s));
  return out;
}

}  // namespace shardwright::space
