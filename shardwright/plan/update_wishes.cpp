#include "shardwright/plan/update_wishes.h"

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"
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
      if (!updates_rows(*node)) out.emplace(node->operands[1], layout_of_update(graph, *node, asked));
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

void lay_out_states(Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (!node.op->optimizer) continue;
    for (ValueId v : state_operands(node))
      if (std::optional<Layout>& state = graph.value(v).layout; !state)
        state = graph.value(node.operands[0]).layout;
  }
}

Strategy sum_of_partials(const Graph& graph, const Node& node, const Rule& rule, const LayoutOf& layout) {
  Strategy s = whole(rule);
  const bool is_sum = rule.linear.size() == 1 && rule.linear[0].size() == node.operands.size();
  if (!is_sum || !graph.value(node.results.front()).type.shape.empty()) return s;
  for (ValueId v : node.operands) {
    const Layout& addend = layout(v);
    if (addend.sum.empty() || (!s.linear[0].empty() && addend.mesh != s.mesh)) continue;
    s.mesh = addend.mesh;
    s.linear[0] = s.linear[0].with(addend.sum.without(s.linear[0])).sorted();
  }
  return s;
}

Strategy as_its_operand(const Graph& graph, const Node& node, const Rule& rule, const LayoutOf& layout) {
  Strategy out = whole(rule);
  if (node.operands.size() != 1 || rule.linear != std::vector<std::vector<int>>{{0}}) return out;
  const Layout from = without_halo(layout(node.operands[0]));
  const RuleTensor& operand = rule.operands[0];
  for (std::size_t d = 0; d < from.dims.size(); ++d)
    if (operand.dims[d].size() == 1) out.loops[at(operand.dims[d][0])] = from.dims[d];
  out.linear[0] = from.sum;
  out.mesh = from.mesh;
  return violation(rule, out, graph.meshes[at(out.mesh)]) ? whole(rule) : out;
}

}  // namespace shardwright
