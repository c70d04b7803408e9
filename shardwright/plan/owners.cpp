#include "shardwright/plan/owners.h"

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
std::vector<NodeId> owners_of(const Graph& graph) {
  std::vector<NodeId> owners(graph.nodes.size());
  std::vector<NodeId> first_reader(graph.values.size());  // forward, per value
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    NodeId& owner = owners[at(id.index)];
    if (node.op->kind != OpKind::compute) continue;
    if (node.phase == Phase::forward)
      owner = id;
    else if (node.op->optimizer)
      owner = first_reader[at(node.operands.front().index)];
    else if (node.forward.is_valid())
      owner = node.forward;
    else
      for (ValueId v : node.operands)  // of an accumulation the gradient is the second
        if (!owner.is_valid()) owner = owners[at(graph.value(v).producer.index)];
    if (node.phase != Phase::forward) continue;
    for (ValueId v : node.operands)
      if (!first_reader[at(v.index)].is_valid()) first_reader[at(v.index)] = id;
  }
  for (NodeId id : graph.node_ids())
    if (graph.node(id).op->kind != OpKind::compute)
      owners[at(id.index)] = first_reader[at(graph.node(id).results.front().index)];
  return owners;
}

void note_owners(Graph& graph) {
  const std::vector<NodeId> owners = owners_of(graph);
  for (std::size_t n = 0; n < owners.size(); ++n) graph.nodes[n].owner = owners[n];
}

}  // namespace shardwright
