#include "shardwright/plan/batch.h"

#include <algorithm>

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

constexpr std::string_view batch_attribute = "batch";

}  // namespace

std::vector<std::size_t> batch_dims_of_leaf(const Graph& graph, const Node& leaf) {
  const bool comes_with_each = leaf.op->kind == OpKind::receive && leaf.phase == Phase::forward &&
                               leaf.attributes.integer("once", 0) == 0;
  if (leaf.op->kind != OpKind::input && !comes_with_each) return {};
  if (graph.value(leaf.results[0]).type.shape.empty()) return {};
  if (!leaf.attributes.find(batch_attribute)) return {0};
  const auto dims = leaf.attributes.integers(batch_attribute);
  return {dims.begin(), dims.end()};
}

Type of_whole_step(Type type, int micro_batches) {
  if (!type.shape.empty()) type.shape[0] *= micro_batches;
  return type;
}

Attributes attributes_of_batch(const std::vector<bool>& is_batch) {
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < is_batch.size(); ++d)
    if (is_batch[d]) dims.push_back(static_cast<std::int64_t>(d));
  if (is_batch.empty() || dims == std::vector<std::int64_t>{0}) return {};
  return {{std::string(batch_attribute), dims}};
}

BatchDims batch_dims(const Graph& graph) {
  BatchDims is_batch(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) break;
    for (ValueId v : node.results) is_batch[at(v.index)].assign(graph.value(v).type.shape.size(), false);
    for (std::size_t d : batch_dims_of_leaf(graph, node)) is_batch[at(node.results[0].index)][d] = true;
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

bool mixes_samples(const Graph& graph) {
  const BatchDims is_batch = batch_dims(graph);
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward || node.op->kind != OpKind::compute) continue;
    const auto has_batch = [&](ValueId v) {
      const std::vector<bool>& dims = is_batch[at(v.index)];
      return std::find(dims.begin(), dims.end(), true) != dims.end();
    };
    const bool reads = std::ranges::any_of(node.operands, has_batch);
    for (ValueId v : node.results)
      if (reads && !has_batch(v) && element_count(graph.value(v).type.shape) > 1) return true;
  }
  return false;
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
