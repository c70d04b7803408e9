#include "shardwright/lower/expand.h"

#include <algorithm>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// Splits the loop dims that `node` shares with the operator of `rule` as that one does.
Strategy of_same_dims(const Graph& graph, const Node& node, const Rule& rule, const Strategy& strategy) {
  const Rule own = rule_of(graph, node);
  Strategy out = whole(own);
  for (std::size_t l = 0; l < own.loops.size(); ++l)
    if (const int same = rule.loop(own.loops[l].name); same >= 0) out.loops[l] = strategy.loops[at(same)];
  out.mesh = used_axes(out).empty() ? 0 : strategy.mesh;
  return out;
}

bool is_to_expand(const Graph& graph, const Node& node) {
  return node.op->expand && node.strategy && needs_expansion(rule_of(graph, node), *node.strategy);
}

class Expansion {
 public:
  explicit Expansion(const Graph& graph) : graph_(graph), moved_(graph.nodes.size()) {
    out_.graph = graph;
    out_.graph.nodes.clear();
  }

  Expanded run() {
    for (NodeId id : graph_.node_ids()) {
      Node node = graph_.node(id);
      if (node.forward.is_valid()) node.forward = moved_[at(node.forward.index)];
      if (is_to_expand(graph_, node))
        expand(node);
      else
        keep(node);
      moved_[at(id.index)] = out_.graph.value(graph_.node(id).results.front()).producer;
      out_.origins.resize(out_.graph.nodes.size(), id);
    }
    return std::move(out_);
  }

 private:
  void keep(const Node& node) {
    const NodeId id{static_cast<int>(out_.graph.nodes.size())};
    for (ValueId v : node.results) out_.graph.value(v).producer = id;
    out_.graph.nodes.push_back(node);
  }

  void expand(const Node& node) {
    if (!builder_) builder_.emplace(out_.graph);
    builder_->set_phase(node.phase);
    builder_->set_forward(node.forward);
    const std::size_t first = out_.graph.nodes.size();
    const std::vector<ValueId> made = node.op->expand(*builder_, node.operands, node.attributes);
    require(made.size() == node.results.size(), "{} expands into {} results", node.op->name, made.size());
    for (std::size_t i = 0; i < made.size(); ++i) take_the_place(node.results[i], made[i], first);
    const Rule rule = rule_of(graph_, node);
    for (std::size_t n = first; n < out_.graph.nodes.size(); ++n) {
      Node& part = out_.graph.nodes[n];
      part.strategy = of_same_dims(out_.graph, part, rule, *node.strategy);
      part.is_recomputed = node.is_recomputed;
      part.owner = node.owner;
    }
  }

  /// Makes `wanted` the result that `made` is.
  void take_the_place(ValueId wanted, ValueId made, std::size_t first) {
    Value& value = out_.graph.value(wanted);
    value.producer = out_.graph.value(made).producer;
    value.result = out_.graph.value(made).result;
    for (std::size_t n = first; n < out_.graph.nodes.size(); ++n)
      for (auto* values : {&out_.graph.nodes[n].operands, &out_.graph.nodes[n].results})
        std::replace(values->begin(), values->end(), made, wanted);
  }

  const Graph& graph_;
  Expanded out_;
  std::optional<Builder> builder_;  // of a graph with an operator to expand
  std::vector<NodeId> moved_;       // per node, or the one that makes its first result
};

}  // namespace

bool has_to_be_expanded(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node& node) { return is_to_expand(graph, node); });
}

Expanded expanded(const Graph& graph) { return Expansion(graph).run(); }

}  // namespace shardwright
