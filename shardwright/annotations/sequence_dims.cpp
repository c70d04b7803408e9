#include "shardwright/annotations/sequence_dims.h"

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/batch.h"

namespace shardwright {

SequenceDims sequence_dims(const Graph& graph, const Calls& calls) {
  SequenceDims out(graph.values.size());
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward) break;
    for (ValueId v : node.results) out[at(v.index)].assign(graph.value(v).type.shape.size(), false);
    const std::vector<std::size_t> batch = batch_dims_of_leaf(graph, node);
    if (!batch.empty()) {
      const Type& type = graph.value(node.results[0]).type;
      const bool is_tokens = !is_floating(type.dtype) && type.shape.size() == 2;
      if (batch.front() == 0 && (is_tokens || type.shape.size() == 3))
        out[at(node.results[0].index)][1] = true;
    }
    if (node.op->kind != OpKind::compute) continue;
    const Rule& rule = calls.rule(id);
    std::vector<bool> loops(rule.loops.size(), false);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d)
        if (out[at(node.operands[i].index)][d] && !rule.operands[i].dims[d].empty())
          loops[at(rule.operands[i].dims[d][0])] = true;
    for (std::size_t i = 0; i < node.results.size(); ++i)
      for (std::size_t d = 0; d < rule.results[i].dims.size(); ++d)
        if (!rule.results[i].dims[d].empty() && loops[at(rule.results[i].dims[d][0])])
          out[at(node.results[i].index)][d] = true;
  }
  return out;
}

}  // namespace shardwright
