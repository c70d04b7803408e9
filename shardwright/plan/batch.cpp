#include "shardwright/plan/batch.h"

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

bool brings_samples(const Node& node) {
  return node.op->kind == OpKind::input ||
         (node.op->kind == OpKind::receive && node.phase == Phase::forward &&
          node.attributes.integer("once", 0) == 0);
}

BatchDims batch_dims(const Graph& graph) {
  BatchDims is_batch(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) break;
    for (ValueId v : node.results) is_batch[at(v.index)].assign(graph.value(v).type.shape.size(), false);
    if (brings_samples(node) && !graph.value(node.results[0]).type.shape.empty())
      is_batch[at(node.results[0].index)][0] = true;
    if (node.op->kind != OpKind::compute) continue;
    const Rule rule = rule_of(graph, node);
    std::vector<bool> loops(rule.loops.size(), false);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d)
        if (is_batch[at(node.operands[i].index)][d] && !rule.operands[i].dims[d].empty())
          loops[at(rule.operands[i].dims[d][0])] = true;
    for (std::size_t i = 0; i < node.results.size(); ++i)
      for (std::size_t d = 0; d < rule.results[i].dims.size(); ++d)
        if (!rule.results[i].dims[d].empty() && loops[at(rule.results[i].dims[d][0])])
          is_batch[at(node.results[i].index)][d] = true;
  }
  return is_batch;
}

Strategy batch_strategy(const Graph& graph, const Node& node, const BatchDims& is_batch, const Mesh& mesh) {
  const Rule rule = rule_of(graph, node);
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d) {
      if (!is_batch[at(node.operands[i].index)][d] || rule.operands[i].dims[d].empty()) continue;
      Strategy s = whole(rule);
      s.loops[at(rule.operands[i].dims[d][0])] = mesh.all_axes();
      if (!violation(rule, s, mesh)) return s;
    }
  return whole(rule);
}

}  // namespace shardwright
