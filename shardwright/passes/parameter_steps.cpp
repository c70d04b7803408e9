#include "shardwright/passes/parameter_steps.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

bool is_sum(const Node& node) {
  return (node.op->step == StepKind::all_reduce || node.op->step == StepKind::reduce_scatter) &&
         node.op->reduction == Reduction::sum;
}

class ParameterSteps {
 public:
  explicit ParameterSteps(const Graph& graph)
      : graph_(graph), found_(graph.nodes.size()), is_seen_(graph.nodes.size(), false) {}

  std::vector<ValueId> run() {
    for (const Node& node : graph_.nodes)
      if (node.op->optimizer) follow_gradient(node.operands[1], source(node.operands[0]));
    for (const Node& node : graph_.nodes)
      if (node.op->kind == OpKind::step) mark_direct(node);
    for (const Update& u : graph_.updates)
      if (kind(u.leaf) == OpKind::parameter) mark_gathers(u.value, u.leaf);
    return found_;
  }

 private:
  const Node& producer(ValueId v) const { return graph_.node(graph_.value(v).producer); }
  OpKind kind(ValueId v) const { return producer(v).op->kind; }
  static bool passes_on(const Node& node) { return node.op->kind == OpKind::step || node.op->is_alias; }

  /// What `v` is a copy of.
  ValueId source(ValueId v) const {
    while (passes_on(producer(v))) v = producer(v).operands.front();
    return v;
  }

  void follow_gradient(ValueId gradient, ValueId parameter) {
    std::vector<ValueId> open{gradient};
    while (!open.empty()) {
      const NodeId id = graph_.value(open.back()).producer;
      open.pop_back();
      if (is_seen_[at(id.index)]) continue;
      is_seen_[at(id.index)] = true;
      const Node& node = graph_.node(id);
      if (is_sum(node)) found_[at(id.index)] = parameter;
      if (!passes_on(node) && !node.op->block) continue;
      const std::int64_t elements = element_count(graph_.value(node.results.front()).global_type().shape);
      for (ValueId v : node.operands)
        if (element_count(graph_.value(v).global_type().shape) == elements) open.push_back(v);
    }
  }

  /// Where values say themselves what they are.
  void mark_direct(const Node& node) {
    const ValueId result = node.results.front(), from = source(node.operands.front());
    ValueId& found = found_[at(graph_.value(result).producer.index)];
    if (node.op->step == StepKind::all_gather && kind(from) == OpKind::parameter) found = from;
    if (!is_sum(node) || found.is_valid()) return;
    for (ValueId of : graph_.value(result).gradient_of)
      if (kind(source(of)) == OpKind::parameter) found = source(of);
  }

  void mark_gathers(ValueId v, ValueId parameter) {
    for (; passes_on(producer(v)); v = producer(v).operands.front())
      if (producer(v).op->step == StepKind::all_gather)
        found_[at(graph_.value(v).producer.index)] = parameter;
  }

  const Graph& graph_;
  std::vector<ValueId> found_;  // by node
  std::vector<bool> is_seen_;   // by node
};

}  // namespace

std::vector<ValueId> parameter_steps(const Graph& graph) { return ParameterSteps(graph).run(); }

bool goes_round(const Graph& graph, const Node& node) {
  const auto& layout = graph.value(node.results.front()).layout;
  return node.op->step == StepKind::halo && std::ranges::any_of(layout->windows, &Window::goes_round);
}

namespace {

/// Per value how many times parts of it are fetched that go round.
std::vector<int> times_round(const Graph& graph) {
  std::vector<int> out(graph.values.size(), 0);
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::step && goes_round(graph, node)) ++out[at(node.operands.front().index)];
  return out;
}

}  // namespace

std::vector<bool> gathers_ahead(const Graph& graph) { return gathers_ahead(graph, parameter_steps(graph)); }

std::vector<bool> gathers_ahead(const Graph& graph, const std::vector<ValueId>& parameters) {
  const std::vector<int> rounds = times_round(graph);
  std::vector<bool> out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op->step == StepKind::fetch) {
      const Node& maker = graph.node(graph.value(node.operands.front()).producer);
      out.push_back(is_leaf(maker) || node.phase > maker.phase);
      continue;
    }
    if (node.op->step == StepKind::halo && goes_round(graph, node)) {
      out.push_back(rounds[at(node.operands.front().index)] > 1);
      continue;
    }
    const bool is_gather = node.op->step == StepKind::all_gather && node.phase != Phase::update;
    const bool is_again =
        is_gather && node.phase > graph.node(graph.value(node.operands.front()).producer).phase;
    out.push_back(is_again || (is_gather && parameters[i].is_valid()));
  }
  return out;
}

}  // namespace shardwright
