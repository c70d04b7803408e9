#include "shardwright/search/planning/decisions.h"

#include <algorithm>

#include "shardwright/graph/op.h"
#include "shardwright/plan/groups.h"
#include "shardwright/plan/leaves.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

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
    if (!s.loops[l].empty()) out.strategy.emplace_back(rule.loops[l].name, names_of(s.loops[l], mesh));
  for (std::size_t g = 0; g < rule.linear.size(); ++g)
    if (!s.linear[g].empty()) out.strategy.emplace_back(fmt::format("+{}", g), names_of(s.linear[g], mesh));
  for (const RuleTensor& tensor : rule.operands) out.in.push_back(integers_of(tensor, s, mesh));
  return out;
}

std::vector<PlannedOperator> planned_operators(const Graph& graph, const Calls& calls,
                                               const Constraints& constraints,
                                               const std::vector<Choice>& choices) {
  struct Told {
    const Strategy* strategy;
    PlannedOperator what;
  };
  std::vector<std::vector<Told>> known(at(calls.size()));  // layers repeat themselves
  std::vector<PlannedOperator> out;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[at(n)];
    if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
    const Choice& choice = choices[at(n)];
    auto& told = known[at(calls.of({n}))];
    auto it =
        std::find_if(told.begin(), told.end(), [&](const Told& t) { return *t.strategy == choice.strategy; });
    if (it == told.end())
      it = told.insert(
          it, {&choice.strategy, told_of(node, calls.rule(NodeId{n}), choice.strategy, constraints.meshes)});
    PlannedOperator& planned = out.emplace_back(it->what);
    planned.name = graph.name_of({n});
    planned.reason = choice.reason;
    planned.is_fixed = constraints.strategies[at(n)].has_value();
    const auto asked = constraints.layouts.find(node.results.front());
    if (asked != constraints.layouts.end()) planned.out = text_of(asked->second, constraints.meshes);
  }
  return out;
}

/// Leaves lie as their first forward user wants them, unless data have a layout of their own. States that no forward
/// node reads are the optimizer's, and lie as their parameter does.
std::map<ValueId, Layout> leaf_layouts(const Graph& graph, const Calls& calls, const Constraints& constraints,
                                       const std::vector<Choice>& choices,
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
    const auto asked = constraints.layouts.find(v);
    if (asked != constraints.layouts.end()) {
      layout = asked->second;
    } else if (reader.node.is_valid()) {
      const NodeLayouts layouts =
          layouts_of(calls.rule(reader.node), choices[at(reader.node.index)].strategy);
      layout = stored(layouts.operands[reader.operand]);
    }
    if (node.op->kind == OpKind::parameter)
      layout = weight_layout(layout, constraints.meshes, graph.value(v).type, optimizer_parallel);
    out.emplace_hint(out.end(), v, std::move(layout));
  }
  return out;
}

/// `decided` on meshes whose axes are cut where groups of optimizer parallelism need it.
Decisions with_groups(Decisions decided, const Graph& graph, const Calls& calls,
                      const OptimizerParallel& options) {
  if (options.level == 0 || options.group == 0) return decided;
  std::vector<Layout> weights;
  for (const auto& [v, layout] : leaf_layouts(graph, calls, decided.constraints, decided.choices, {}))
    if (graph.node(graph.value(v).producer).op->kind == OpKind::parameter &&
        graph.value(v).type.bytes() >= options.threshold)
      weights.push_back(layout);
  CutMeshes cut = cut_for_groups(decided.constraints.meshes, weights, options.group);
  for (Choice& choice : decided.choices) choice.strategy = translate(choice.strategy, cut);
  for (auto& [v, layout] : decided.constraints.layouts)
    layout = translate(layout, cut.axes_of[at(layout.mesh)], layout.mesh);
  for (auto& strategy : decided.constraints.strategies)
    if (strategy) strategy = translate(*strategy, cut);
  decided.constraints.meshes = std::move(cut.meshes);
  return decided;
}

}  // namespace

Decisions decisions_of(Constraints constraints, SearchResult found, const Graph& graph, const Calls& calls,
                       const OptimizerParallel& optimizer_parallel) {
  if (!found.meshes.empty()) {
    constraints.meshes = std::move(found.meshes);
    constraints.layouts = std::move(found.layouts);
  }
  Decisions out =
      with_groups({.constraints = std::move(constraints), .choices = std::move(found.choices), .leaves = {}},
                  graph, calls, optimizer_parallel);
  out.leaves = leaf_layouts(graph, calls, out.constraints, out.choices, optimizer_parallel);
  return out;
}

Plan told(Plan plan, const Graph& graph, const Calls& calls, const Decisions& decided) {
  plan.meshes = decided.constraints.meshes;
  plan.operators = planned_operators(graph, calls, decided.constraints, decided.choices);
  for (const auto& [v, layout] : decided.leaves)
    plan.layouts[graph.value(v).name] = text_of(layout, decided.constraints.meshes);
  return plan;
}

PlannedGraph written(Graph graph, const Decisions& decided, const Plan& plan,
                     const MicroBatches& micro_batches) {
  PlannedGraph out{.graph = std::move(graph),
                   .update_layouts = {},
                   .comm_fusion = plan.settings.comm_fusion,
                   .recompute = plan.settings.recompute,
                   .micro_batches = micro_batches};
  out.graph.level = Level::planned;
  out.graph.meshes = decided.constraints.meshes;
  for (std::size_t n = 0; n < out.graph.nodes.size(); ++n) {
    Node& node = out.graph.nodes[n];
    if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
    node.strategy = decided.choices[n].strategy;
    const ValueId v = node.results.front();
    const auto asked = decided.constraints.layouts.find(v);
    if (asked != decided.constraints.layouts.end()) out.graph.value(v).layout = asked->second;
  }
  for (const auto& [v, layout] : decided.leaves) out.graph.value(v).layout = layout;
  shard_states(out, out.graph.meshes, plan.settings.optimizer_parallel);
  return out;
}

}  // namespace shardwright
