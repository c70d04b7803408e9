#include "shardwright/plan/update_wishes.h"

#include "shardwright/graph/op.h"

namespace shardwright {

Layout layout_of_update(const Graph& graph, const Node& node, const std::map<ValueId, Layout>& asked) {
  const ValueId weight = node.operands.front();
  if (const auto it = asked.find(weight); it != asked.end()) return it->second;
  const ValueId state = state_operands(node).empty() ? weight : state_operands(node).front();
  for (ValueId v : {state, weight})
    if (graph.value(v).layout) return *graph.value(v).layout;
  return replicated(graph.value(weight).type.shape.size());
}

std::map<ValueId, Layout> update_wishes(const Graph& graph, const std::map<ValueId, Layout>& asked) {
  std::map<ValueId, Layout> out;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->phase != Phase::update) continue;
    if (node->op->optimizer) {
      out.emplace(node->operands[1], layout_of_update(graph, *node, asked));
      continue;
    }
    if (!node->op->block || !out.contains(node->results.front())) continue;
    const Layout layout = out.at(node->results.front());
    for (ValueId v : node->operands)
      if (graph.value(v).type.shape == graph.value(node->results.front()).type.shape) out.emplace(v, layout);
  }
  return out;
}

std::optional<Strategy> strategy_of_wishes(const Node& node, const Rule& rule,
                                           const std::map<ValueId, Layout>& wishes) {
  const auto like = [&](const RuleTensor& tensor, ValueId v) -> std::optional<Strategy> {
    const auto wish = wishes.find(v);
    if (wish == wishes.end() || wish->second.dims.size() != tensor.dims.size()) return std::nullopt;
    Strategy out = whole(rule);
    for (std::size_t d = 0; d < tensor.dims.size(); ++d)
      if (tensor.dims[d].size() == 1)
        out.loops[static_cast<std::size_t>(tensor.dims[d][0])] = wish->second.dims[d];
    out.mesh = used_axes(out).empty() ? 0 : wish->second.mesh;
    return out;
  };
  for (std::size_t i = 0; i < node.results.size(); ++i)
    if (auto s = like(rule.results[i], node.results[i])) return s;
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    if (auto s = like(rule.operands[i], node.operands[i])) return s;
  return std::nullopt;
}

}  // namespace shardwright
