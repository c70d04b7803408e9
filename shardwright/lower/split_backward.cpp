#include "shardwright/lower/split_backward.h"

#include <algorithm>
#include <vector>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"

namespace shardwright {
namespace {

/// By node: it leads to what another stage waits for. A gradient that goes from micro-batch to micro-batch is sent in the
/// update, and so is what hangs on all gradients, such as their norm.
std::vector<bool> awaited(const Graph& graph) {
  std::vector<bool> is_kept(graph.values.size(), false), of_nodes(graph.nodes.size(), false);
  for (const Update& u : graph.updates) is_kept[at(u.value.index)] = true;
  for (ValueId v : graph.sends)
    if (const NodeId made = graph.value(v).producer;
        !is_kept[at(v.index)] && graph.node(made).phase != Phase::update)
      of_nodes[at(made.index)] = true;
  for (NodeId id{static_cast<int>(graph.nodes.size()) - 1}; id.is_valid(); --id.index)
    if (of_nodes[at(id.index)])
      for (ValueId v : graph.node(id).operands) of_nodes[at(graph.value(v).producer.index)] = true;
  return of_nodes;
}

}  // namespace

Graph with_split_backward(Graph graph) {
  const std::vector<bool> is_awaited = awaited(graph);
  for (NodeId id : graph.node_ids()) {
    Node& node = graph.node(id);
    const bool may_wait = node.op->kind == OpKind::compute || node.op->kind == OpKind::step;
    if (node.phase == Phase::backward && may_wait && !is_awaited[at(id.index)]) node.phase = Phase::weights;
  }
  std::vector<NodeId> order = graph.node_ids();
  std::ranges::stable_sort(order, {}, [&](NodeId id) { return graph.node(id).phase; });
  return rebuild(std::move(graph), order, std::vector<ValueId>(graph.values.size()));
}

}  // namespace shardwright
