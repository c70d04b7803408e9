#include "shardwright/plan/contradictions.h"

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

const Mesh& mesh_at(const Problem& problem, int mesh) {
  return problem.constraints.meshes[static_cast<std::size_t>(mesh)];
}

const std::optional<Strategy>& fixed(const Problem& problem, NodeId id) {
  return problem.constraints.strategies[static_cast<std::size_t>(id.index)];
}

void check_uses_all(const Problem& problem, NodeId id) {
  const Strategy& s = *fixed(problem, id);
  const Mesh& mesh = mesh_at(problem, s.mesh);
  if (!is_all_or_nothing(s, mesh))
    throw error(
        "{}: its annotation uses {} of {} devices, but fully-use-devices asks for all of them or none; "
        "change one "
        "of the two",
        problem.graph->name_of(id), mesh.count(used_axes(s)), mesh.size());
}

/// The layout in which a fixed operator hands out its result `v`.
Layout handed_out(const Problem& problem, ValueId v) {
  const auto asked = problem.constraints.layouts.find(v);
  if (asked != problem.constraints.layouts.end()) return asked->second;
  const Value& value = problem.graph->value(v);
  const Rule rule = rule_of(*problem.graph, problem.graph->node(value.producer));
  return reduced(
      layouts_of(rule, *fixed(problem, value.producer)).results[static_cast<std::size_t>(value.result)]);
}

/// A fixed reader of a fixed point-wise operator reads its result as it lies.
void check_follows(const Problem& problem, NodeId id) {
  const Graph& graph = *problem.graph;
  const Node& node = graph.node(id);
  const NodeLayouts layouts = layouts_of(rule_of(graph, node), *fixed(problem, id));
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId v = node.operands[i];
    const NodeId from = graph.value(v).producer;
    if (!graph.node(from).op->block || !fixed(problem, from)) continue;
    const Layout has = handed_out(problem, v);
    const Layout& wants = layouts.operands[i];
    if (problem.redistributor->find(has, wants, graph.value(v).type).steps.empty()) continue;
    throw error(
        "{} is annotated to read {} as {}, which is annotated to be {}; elementwise-follow wants the same of "
        "both",
        graph.name_of(id), graph.value(v).name, to_text(wants, mesh_at(problem, wants.mesh)),
        to_text(has, mesh_at(problem, has.mesh)));
  }
}

}  // namespace

void check_no_contradiction(const Problem& problem, const SearchOptions& options) {
  for (NodeId id : problem.graph->node_ids()) {
    if (!fixed(problem, id)) continue;
    if (options.fully_use_devices) check_uses_all(problem, id);
    if (options.elementwise_follow) check_follows(problem, id);
  }
}

}  // namespace shardwright
