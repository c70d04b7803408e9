#include "shardwright/annotations/operator_splits.h"

#include <algorithm>
#include <ranges>

#include "shardwright/annotations/expert_axes.h"
#include "shardwright/annotations/patterns.h"
#include "shardwright/base/index.h"
#include "shardwright/base/name_pattern.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/decided.h"

namespace shardwright {
namespace {

bool is_decided(const Node& node) { return node.op->kind == OpKind::compute && node.phase == Phase::forward; }

std::vector<std::string> operators_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes)
    if (is_decided(node)) out.push_back(graph.value(node.results.front()).name);
  return out;
}

/// The axes of `mesh` that a degree has become: `dp`, or of `tp` its parts `tp0`, `tp1`; none where it is 1.
Axes axes_of(const std::string& degree, const Mesh& mesh) {
  Axes out;
  for (int a = 0; a < mesh.axis_count(); ++a)
    if (degree_of_axis(mesh.axes[at(a)].name) == degree) out.push_back(a);
  return out;
}

std::size_t loop_of(const Rule& rule, const std::string& name, std::string_view who) {
  const auto loop = std::ranges::find(rule.loops, name, &LoopDim::name);
  if (loop != rule.loops.end()) return static_cast<std::size_t>(loop - rule.loops.begin());
  std::vector<std::string> known;
  for (const LoopDim& l : rule.loops) known.push_back(l.name);
  throw error("{}: there is no loop dim '{}'; there are {}", who, name, join(known, ", "));
}

Strategy strategy_of(const LoopSplit& split, const Node& node, const Rule& rule, const Mesh& mesh,
                     const Grains& grains, std::string_view who) {
  Strategy out = whole(rule);
  for (const auto& [name, degrees] : split) {
    const std::size_t loop = loop_of(rule, name, who);
    for (const std::string& degree : degrees)
      for (int axis : axes_of(degree, mesh)) out.loops[loop].push_back(axis);
    if (!out.loops[loop].empty() && rule.loops[loop].stays_whole())
      throw error("{}: loop dim {} cannot be split", who, name);
    out.loops[loop] = grains.fit(out.loops[loop], node, rule, static_cast<int>(loop), mesh);
  }
  if (const auto violation = violation_as_asked(rule, out, mesh)) throw error("{}: {}", who, *violation);
  return out;
}

using Said = std::pair<const std::string, LoopSplit>;

/// Per node what is said of it, or null; `all_count`: of each name there has to be an operator.
std::vector<const Said*> said_of_nodes(const Graph& graph, const Constraints& constraints, bool all_count) {
  std::vector<const Said*> out(graph.nodes.size(), nullptr);
  const auto keys = std::views::keys(constraints.operators);
  const auto said =
      said_by({keys.begin(), keys.end()}, operators_of(graph), "constraint of", "operator", all_count);
  for (NodeId id : graph.node_ids()) {
    if (!is_decided(graph.node(id))) continue;
    const auto key = said.find(graph.value(graph.node(id).results.front()).name);
    if (key != said.end()) out[at(id.index)] = &*constraints.operators.find(key->second);
  }
  return out;
}

}  // namespace

void check_operators(const Graph& graph, const Constraints& constraints) {
  check_experts(graph, constraints);
  if (constraints.operators.empty()) return;
  const std::vector<const Said*> said = said_of_nodes(graph, constraints, true);
  for (NodeId id : graph.node_ids()) {
    if (!said[at(id.index)]) continue;
    const Rule rule = rule_of(graph, graph.node(id));
    for (const auto& [loop, degrees] : said[at(id.index)]->second) loop_of(rule, loop, graph.name_of(id));
  }
}

SaidOperators::SaidOperators(const Graph& graph, const Constraints& constraints) : graph_(graph) {
  if (!constraints.operators.empty()) said_ = said_of_nodes(graph, constraints, false);
}

std::string SaidOperators::text_of(NodeId id) const {
  return has(id) ? to_text(said_[at(id.index)]->second) : "";
}

std::optional<SaidOperators::Choice> SaidOperators::choice_of(NodeId id, const Rule& rule, const Mesh& mesh,
                                                              const Grains& grains) const {
  if (!has(id)) return std::nullopt;
  const auto& [key, split] = *said_[at(id.index)];
  const std::string text = fmt::format("{}={}", key, to_text(split));
  const std::string who = is_pattern(key) ? fmt::format("{} of {}", text, graph_.name_of(id)) : text;
  return Choice{strategy_of(split, graph_.node(id), rule, mesh, grains, who), text};
}

}  // namespace shardwright
