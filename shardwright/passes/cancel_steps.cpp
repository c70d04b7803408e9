// Every step keeps the logical value and changes only its layout. So when a chain of steps comes back to a
// layout that one of its ancestors has, the ancestor will do: slice after all_gather, all_reduce after mask.

#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {

Program cancel_steps(Program program, const PassContext&) {
  const Graph& graph = program.graph;
  std::vector<ValueId> replacement(graph.values.size());
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::step) continue;
    const ValueId result = node.results.front();
    for (NodeId above = id; graph.node(above).op->kind == OpKind::step;) {
      const ValueId v = graph.node(above).operands.front();
      if (graph.value(v).layout == graph.value(result).layout)
        replacement[static_cast<std::size_t>(result.index)] = v;
      above = graph.value(v).producer;
    }
  }
  const std::vector<NodeId> all = graph.node_ids();
  program.graph = rebuild(std::move(program.graph), all, replacement);
  return program;
}

}  // namespace shardwright
