// A node whose result is its operand's memory in the same shape and layout is its operand: reshard and
// stop_gradient have said what they had to say by now, and a flatten of two dims never said anything. `keep` stays: it
// keeps the steps behind it apart from those in front of it.

#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/ops/keep.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {

Program drop_identities(Program program, const PassContext&) {
  const Graph& graph = program.graph;
  const OpDef& keep = keep_op();
  std::vector<bool> stays(graph.nodes.size(), true);
  std::vector<ValueId> replacement(graph.values.size());
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (!node.op->is_alias || node.op == &keep) continue;
    const Value &from = graph.value(node.operands.front()), &to = graph.value(node.results.front());
    if (from.global_type() != to.global_type() || from.layout != to.layout) continue;
    stays[static_cast<std::size_t>(id.index)] = false;
    replacement[static_cast<std::size_t>(node.results.front().index)] = node.operands.front();
  }
  program.graph = rebuild(std::move(program.graph), kept(stays), replacement);
  return program;
}

}  // namespace shardwright
