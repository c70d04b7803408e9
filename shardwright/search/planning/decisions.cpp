#include "shardwright/search/planning/decisions.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/groups.h"
#include "shardwright/plan/leaves.h"

namespace shardwright {
namespace {

std::vector<std::string> names_of(const Axes& axes, const Mesh& mesh) {
  std::vector<std::string> out;
  for (int a : axes) out.push_back(mesh.axes[at(a)].name);
  return out;
}

std::string text_of(const Layout& layout, const std::vector<Mesh>& meshes) {
  return to_text(layout, meshes[at(layout.mesh)]) + (layout.mesh > 0 ? fmt::format("@{}", layout.mesh) : "");
}

/// What is told of one call under one strategy, but for names and reasons.
PlannedOperator told_of(const Node& node, const Rule& rule, const Strategy& s,
                        const std::vector<Mesh>& meshes) {
  const Mesh& mesh = meshes[at(s.mesh)];
  PlannedOperator out{.kind = node.op->name, .mesh = s.mesh};
  for (std::size_t l = 0; l < rule.loops.size(); ++l)
    if (!s.loops[l].empty()) {
      out.strategy.emplace_back(rule.loops[l].name, names_of(s.loops[l], mesh));
      if (const Axes& axes = s.loops[l]; !axes.is_cut_plainly())
        out.cuts.emplace(rule.loops[l].name,
                         UnevenCut{std::max<std::int64_t>(1, axes.grain()), axes.is_by_shares()});
    }
  for (std::size_t g = 0; g < rule.linear.size(); ++g)
    if (!s.linear[g].empty()) out.strategy.emplace_back(fmt::format("+{}", g), names_of(s.linear[g], mesh));
  for (const RuleTensor& tensor : rule.operands) out.in.push_back(integers_of(tensor, s, mesh));
  return out;
}

std::vector<PlannedOperator> planned_operators(const Graph& graph, const Calls& calls,
                                               const Decisions& decided) {
  struct Told {
    const Strategy* strategy;
    PlannedOperator what;
  };
  const Choices& choices = decided.choices;
  std::vector<std::vector<Told>> known(at(calls.size()));  // layers repeat themselves
  std::vector<PlannedOperator> out;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[at(n)];
    if (!is_forward_operator(node)) continue;
    const Strategy& strategy = *choices.strategies[at(n)];
    auto& told = known[at(calls.of({n}))];
    auto it = std::find_if(told.begin(), told.end(), [&](const Told& t) { return *t.strategy == strategy; });
    if (it == told.end())
      it = told.insert(it, {&strategy, told_of(node, calls.rule(NodeId{n}), strategy, choices.meshes)});
    PlannedOperator& planned = out.emplace_back(it->what);
    planned.name = graph.name_of({n});
    planned.reason = decided.reasons[at(n)];
    planned.is_fixed = decided.is_fixed[at(n)];
    const auto asked = choices.layouts.find(node.results.front());
    if (asked != choices.layouts.end()) planned.out = text_of(asked->second, choices.meshes);
  }
  return out;
}

/// Leaves lie as their first forward user wants them, unless data have a layout of their own. States that no forward
/// node reads are the optimizer's, and lie as their parameter does.
std::map<ValueId, Layout> leaf_layouts(const Graph& graph, const Calls& calls, const Choices& choices,
                                       const OptimizerParallel& optimizer_parallel) {
  const std::vector<Reader> readers = first_forward_readers(graph);
  std::map<ValueId, Layout> out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::compute || node.op->kind == OpKind::step) continue;
    const ValueId v = node.results.front();
    const Reader& reader = readers[at(v.index)];
    if (node.op->kind == OpKind::state && !reader.node.is_valid()) continue;
    // What the backward receives or adds up follows from what it does (complete.h).
    if ((node.op->kind == OpKind::receive && node.phase != Phase::forward) ||
        node.op->kind == OpKind::accumulator)
      continue;
    Layout layout = replicated(graph.value(v).type.shape.size());
    const auto asked = choices.layouts.find(v);
    if (asked != choices.layouts.end()) {
      layout = asked->second;
    } else if (reader.node.is_valid()) {
      const NodeLayouts layouts =
          layouts_of(calls.rule(reader.node), *choices.strategies[at(reader.node.index)]);
      layout = stored(layouts.operands[reader.operand]);
    }
    if (node.op->kind == OpKind::parameter)
      layout = weight_layout(layout, choices.meshes, graph.value(v).type, optimizer_parallel);
    out.emplace_hint(out.end(), v, std::move(layout));
  }
  return out;
}

/// The same on meshes whose axes are cut where groups of optimizer parallelism need it.
void cut_axes_for_groups(Choices& choices, const Graph& graph, const Calls& calls,
                         const OptimizerParallel& options) {
  if (options.level == 0 || options.group == 0) return;
  std::vector<Layout> weights;
  for (const auto& [v, layout] : leaf_layouts(graph, calls, choices, {}))
    if (graph.node(graph.value(v).producer).op->kind == OpKind::parameter &&
        graph.value(v).type.bytes() >= options.threshold)
      weights.push_back(layout);
  CutMeshes cut = cut_for_groups(choices.meshes, weights, options.group);
  for (auto& strategy : choices.strategies)
    if (strategy) strategy = translate(*strategy, cut);
  for (auto& [v, layout] : choices.layouts)
    layout = translate(layout, cut.axes_of[at(layout.mesh)], layout.mesh);
  choices.meshes = std::move(cut.meshes);
}

}  // namespace

Decisions decisions_of(FixedChoices fixed, SearchResult found, const Graph& graph, const Calls& calls,
                       const OptimizerParallel& optimizer_parallel) {
  const bool has_meshes = !found.meshes.empty();  // else those of what is fixed
  Decisions out{.choices = {.meshes = std::move(has_meshes ? found.meshes : fixed.meshes),
                            .strategies = {},
                            .layouts = std::move(has_meshes ? found.layouts : fixed.layouts)},
                .reasons = {},
                .is_fixed = {}};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    auto& strategy = out.choices.strategies.emplace_back();
    if (is_forward_operator(graph.nodes[n])) strategy = std::move(found.choices[n].strategy);
    out.reasons.push_back(std::move(found.choices[n].reason));
    out.is_fixed.push_back(fixed.strategies[n].has_value());
  }
  cut_axes_for_groups(out.choices, graph, calls, optimizer_parallel);
  for (auto& [v, layout] : leaf_layouts(graph, calls, out.choices, optimizer_parallel))
    out.choices.layouts.insert_or_assign(v, std::move(layout));
  return out;
}

StagePlan told(const Graph& graph, const Calls& calls, const Decisions& decided) {
  StagePlan out{
      .meshes = decided.choices.meshes, .operators = planned_operators(graph, calls, decided), .layouts = {}};
  for (const auto& [v, layout] : decided.choices.layouts)
    if (graph.node(graph.value(v).producer).op->kind != OpKind::compute)
      out.layouts[graph.value(v).name] = text_of(layout, decided.choices.meshes);
  return out;
}

}  // namespace shardwright
