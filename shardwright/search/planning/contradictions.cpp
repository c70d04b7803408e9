#include "shardwright/search/planning/contradictions.h"

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

const Mesh& mesh_at(const Problem& problem, int mesh) {
  return problem.fixed.meshes[static_cast<std::size_t>(mesh)];
}

const std::optional<Strategy>& fixed(const Problem& problem, NodeId id) {
  return problem.fixed.strategies[static_cast<std::size_t>(id.index)];
}

void check_uses_all(const Problem& problem, NodeId id) {
  const Strategy& s = *fixed(problem, id);
  const Mesh& mesh = mesh_at(problem, s.mesh);
  if (!is_all_or_nothing(s, mesh))
    throw error(
        "{}: its annotation uses {} of {} devices, but fully-use-devices asks for all of them or none; "
        "change one "
        "of the two",
        problem.graph->name_of(id), mesh.count(used_axes(s)), mesh.size())
        .between({problem.graph->name_of(id), "fully_use_devices", std::to_string(mesh.size()),
                  std::to_string(mesh.count(used_axes(s)))});
}

/// The layout in which `v` is handed out by its producer under `strategy`.
Layout handed_out(const Problem& problem, ValueId v, const Strategy& strategy) {
  const auto asked = problem.fixed.layouts.find(v);
  if (asked != problem.fixed.layouts.end()) return asked->second;
  const Value& value = problem.graph->value(v);
  const Rule rule = rule_of(*problem.graph, problem.graph->node(value.producer));
  return reduced(layouts_of(rule, strategy).results[static_cast<std::size_t>(value.result)]);
}

std::optional<Unfollowed> unfollowed_by(const Problem& problem, NodeId reader,
                                        const StrategyOf& strategy_of) {
  const Graph& graph = *problem.graph;
  const Node& node = graph.node(reader);
  std::optional<NodeLayouts> layouts;  // once it is needed
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId v = node.operands[i];
    const NodeId producer = graph.value(v).producer;
    const Strategy* const of_producer = strategy_of(producer);
    if (!of_producer || !graph.node(producer).op->block) continue;
    if (!layouts) layouts = layouts_of(rule_of(graph, node), *strategy_of(reader));
    Layout has = handed_out(problem, v, *of_producer);
    if (!problem.redistributor->find(has, layouts->operands[i], graph.value(v).type).steps.empty())
      return Unfollowed{reader, v, std::move(has), layouts->operands[i]};
  }
  return std::nullopt;
}

void check_follows(const Problem& problem) {
  const auto found = unfollowed(problem, [&](NodeId id) {
    const auto& s = fixed(problem, id);
    return s ? &*s : nullptr;
  });
  if (!found) return;
  const Graph& graph = *problem.graph;
  const std::string wanted = to_text(found->wants, mesh_at(problem, found->wants.mesh)),
                    given = to_text(found->has, mesh_at(problem, found->has.mesh));
  throw error(
      "{} is annotated to read {} as {}, which is annotated to be {}; elementwise-follow wants the same of "
      "both",
      graph.name_of(found->reader), graph.value(found->value).name, wanted, given)
      .between({graph.name_of(found->reader), graph.value(found->value).name, wanted, given});
}

}  // namespace

std::optional<Unfollowed> unfollowed(const Problem& problem, const StrategyOf& strategy_of) {
  for (NodeId id : problem.graph->node_ids())
    if (strategy_of(id))
      if (auto found = unfollowed_by(problem, id, strategy_of)) return found;
  return std::nullopt;
}

void check_no_contradiction(const Problem& problem, const SearchOptions& options) {
  for (NodeId id : problem.graph->node_ids())
    if (options.fully_use_devices && fixed(problem, id)) check_uses_all(problem, id);
  if (options.elementwise_follow) check_follows(problem);
}

}  // namespace shardwright
