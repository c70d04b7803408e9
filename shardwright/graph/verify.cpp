#include "shardwright/graph/verify.h"

#include <set>

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

void check_operands(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  for (ValueId v : node.operands) {
    if (v.index < 0 || v.index >= static_cast<int>(graph.values.size()))
      throw error("{}: an operand does not exist", graph.name_of(id));
    if (graph.value(v).producer >= id)
      throw error("{}: operand %{} is used before it is defined", graph.name_of(id), graph.value(v).name);
    if (graph.node(graph.value(v).producer).phase > node.phase)
      throw error("{}: a {} node uses %{} of the {} phase", graph.name_of(id), name_of(node.phase),
                  graph.value(v).name, name_of(graph.node(graph.value(v).producer).phase));
  }
}

void check_results(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op->kind != OpKind::compute) return;
  const std::vector<Type> operands = operand_types(graph, node);
  const std::vector<Type> want = infer(*node.op, {operands, {}, node.attributes});
  const std::vector<Type> have = result_types(graph, node);
  if (want.size() != have.size())
    throw error("{}: {} has {} results but {} are written", graph.name_of(id), node.op->name, want.size(),
                have.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    if (want[i] != have[i])
      throw error("{}: {} gives {} but {} is written", graph.name_of(id), node.op->name, to_text(want[i]),
                  to_text(have[i]));
}

/// What is kept or handed out is whole or sharded, but not a sum to be made.
void check_kept(const Graph& graph, ValueId id, std::string_view what) {
  const Value& v = graph.value(id);
  if (v.layout && v.layout->is_partial())
    throw error("%{} is {} and cannot be partial: {}", v.name, what,
                to_text(*v.layout, graph.meshes[static_cast<std::size_t>(v.layout->mesh)]));
}

void check_strategy(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.strategy || node.op->kind != OpKind::compute) return;
  const Mesh& mesh = graph.meshes.at(static_cast<std::size_t>(node.strategy->mesh));
  if (const auto why = violation(rule_of(graph, node), *node.strategy, mesh))
    throw error("{}: {}", graph.name_of(id), *why);
}

}  // namespace

void verify(const Graph& graph) {
  std::set<std::string_view> names;
  for (const Value& v : graph.values) {
    if (!names.insert(v.name).second) throw error("%{} is defined twice", v.name);
    if (v.layout)
      check(*v.layout, graph.meshes.at(static_cast<std::size_t>(v.layout->mesh)), v.global_type().shape);
  }
  Phase phase = Phase::forward;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase < phase)
      throw error("{}: a {} node stands behind the {} phase", graph.name_of(id), name_of(node.phase),
                  name_of(phase));
    phase = node.phase;
    if (node.op->kind != OpKind::compute && node.op->kind != OpKind::step)
      check_kept(graph, node.results.front(), node.op->name);
    check_operands(graph, id);
    check_results(graph, id);
    check_strategy(graph, id);
  }
  for (ValueId v : graph.outputs) check_kept(graph, v, "an output");
  for (const Update& u : graph.updates) {
    const OpKind kind = graph.node(graph.value(u.leaf).producer).op->kind;
    if (kind != OpKind::parameter && kind != OpKind::state)
      throw error("update %{}: only parameters and states can be updated", graph.value(u.leaf).name);
    if (graph.value(u.leaf).type != graph.value(u.value).type)
      throw error("update %{}: it is {} but the new value is {}", graph.value(u.leaf).name,
                  to_text(graph.value(u.leaf).type), to_text(graph.value(u.value).type));
  }
}

}  // namespace shardwright
