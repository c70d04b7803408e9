#include "shardwright/frontend/onnx/constant_folding.h"

#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/graph/op.h"
#include "shardwright/runtime/backend/cpu/cpu.h"

namespace shardwright {
namespace {

/// All of a call on one rank.
LoopBox whole_box(const Rule& rule) {
  LoopBox box;
  for (const LoopDim& l : rule.loops) box.loops.push_back({0, l.size, l.size});
  return box;
}

std::vector<TensorView> views_of(std::vector<Tensor>& values, const std::vector<ValueId>& ids) {
  std::vector<TensorView> views;
  for (ValueId v : ids) views.push_back(values[static_cast<std::size_t>(v.index)].view());
  return views;
}

/// Elements of all values; nothing if there is a leaf that is not known or a value too large.
std::optional<std::int64_t> elements_of(const Graph& graph, const KnownLeaves& leaves) {
  std::int64_t all = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::compute && !leaves.contains(node.results.front())) return std::nullopt;
    for (ValueId v : node.results) {
      const std::int64_t n = element_count(graph.value(v).type.shape);
      if (n > limits::constant_elements) return std::nullopt;
      all += n + 1;
    }
  }
  return all;
}

}  // namespace

std::optional<std::vector<Tensor>> computed(const Graph& graph, const KnownLeaves& leaves,
                                            std::span<const ValueId> wanted, std::int64_t& budget) {
  const auto all = elements_of(graph, leaves);
  if (!all || *all > budget) return std::nullopt;
  budget -= *all;
  const auto backend = cpu_backend();
  std::vector<Tensor> values(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::compute) {
      values[static_cast<std::size_t>(node.results.front().index)] = *leaves.at(node.results.front());
      continue;
    }
    for (ValueId v : node.results) values[static_cast<std::size_t>(v.index)] = Tensor(graph.value(v).type);
    const auto operands = views_of(values, node.operands), results = views_of(values, node.results);
    if (results.front().size() == 0) continue;
    const Rule rule = rule_of(graph, node);
    const LoopBox box = whole_box(rule);
    backend->prepare(*node.op, {operands, results, node.attributes, rule, box})();
  }
  std::vector<Tensor> out;
  for (ValueId v : wanted) out.push_back(values[static_cast<std::size_t>(v.index)]);
  return out;
}

}  // namespace shardwright
