#include "shardwright/lower/expand.h"

#include <algorithm>
#include <map>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/sequence_order.h"
#include "shardwright/ops/calls.h"

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
  return node.op->expand && node.strategy && needs_expansion(*shared_rule_of(graph, node), *node.strategy);
}

/// With what its turns need: into how many parts a dim goes round, and how the sequence stands.
Attributes in_turns(const Graph& graph, const Node& node, const Rule& rule, std::int64_t order) {
  Attributes out = node.attributes;
  for (std::size_t l = 0; l < rule.loops.size(); ++l) {
    if (rule.loops[l].kind != LoopKind::round || node.strategy->loops[l].empty()) continue;
    const Mesh& mesh = graph.meshes[at(node.strategy->mesh)];
    out.set("pieces", std::int64_t{mesh.count(node.strategy->loops[l])});
    if (order > 0) out.set("order", order);
  }
  return out;
}

class Expansion {
 public:
  Expansion(const Graph& graph, std::int64_t order)
      : graph_(graph), order_(order), moved_(graph.nodes.size()) {
    if (order_ > 0) {
      sequence_ = dims_in_order(graph);
      in_place_ = nodes_in_place(graph);
      find_read_in_order();
    }
    out_.graph = graph;
    out_.graph.nodes.clear();
  }

  Expanded run() {
    for (NodeId id : graph_.node_ids()) {
      Node node = graph_.node(id);
      if (node.forward.is_valid()) node.forward = moved_[at(node.forward.index)];
      const bool reads_in_order = order_ > 0 && !is_in_place(graph_.node(id), id);
      for (ValueId& v : node.operands)
        if (reads_in_order) v = node.phase == Phase::update ? put_back(v) : in_order(v);
      if (reads_in_order && node.op->reads_places && takes_order(node)) node.attributes.set("order", order_);
      if (is_to_expand(graph_, graph_.node(id)))
        expand(node, rule_of(graph_, graph_.node(id)));
      else
        keep(node);
      moved_[at(id.index)] = out_.graph.value(graph_.node(id).results.front()).producer;
      const OpKind kind = node.op->kind;
      if (order_ > 0 && (kind == OpKind::input || kind == OpKind::parameter || !reads_in_order)) {
        const Node made = out_.graph.nodes.back();  // which grow by what brings it into order
        for (ValueId v : made.results) bring_into_order(made, v, sequence_of(graph_.node(id), v));
      }
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

  void expand(const Node& node, const Rule& rule) {
    if (!builder_) builder_.emplace(out_.graph);
    builder_->set_phase(node.phase);
    builder_->set_forward(node.forward);
    const std::size_t first = out_.graph.nodes.size();
    const std::vector<ValueId> made =
        node.op->expand(*builder_, node.operands, in_turns(graph_, node, rule, order_));
    require(made.size() == node.results.size(), "{} expands into {} results", node.op->name, made.size());
    for (std::size_t i = 0; i < made.size(); ++i) take_the_place(node.results[i], made[i], first);
    for (std::size_t n = first; n < out_.graph.nodes.size(); ++n) {
      Node& part = out_.graph.nodes[n];
      part.strategy = of_same_dims(out_.graph, part, rule, *node.strategy);
      part.is_recomputed = node.is_recomputed;
      part.owner = node.owner;
    }
  }

  static bool takes_order(const Node& node) {
    return std::ranges::count(node.op->attributes, std::string("order")) > 0;
  }

  /// Also what is computed again, which reads what the one did that it stands for.
  bool is_in_place(const Node& node, NodeId id) const {
    const bool is_again = node.is_recomputed && node.forward.is_valid();
    return in_place_[at((is_again ? node.forward : id).index)];
  }

  void find_read_in_order() {
    is_read_in_order_.resize(graph_.values.size(), false);
    for (NodeId id : graph_.node_ids())
      if (!is_in_place(graph_.node(id), id))
        for (ValueId v : graph_.node(id).operands) is_read_in_order_[at(v.index)] = true;
    for (ValueId v : graph_.outputs) is_read_in_order_[at(v.index)] = true;
  }

  /// The sequence dims of a value; of what is computed again those that it has where it is computed first.
  const std::vector<bool>& sequence_of(const Node& node, ValueId v) const {
    if (!node.is_recomputed || !node.forward.is_valid()) return sequence_[at(v.index)];
    const Node& first = graph_.node(node.forward);
    return sequence_[at(first.results[at(graph_.value(v).result)].index)];
  }

  ValueId in_order(ValueId v) const {
    const auto it = in_order_.find(v);
    return it == in_order_.end() ? v : it->second;
  }

  /// What an update reads: a table as it stands, and its gradient, whose rows stand in order till then, as the table's do.
  ValueId put_back(ValueId v) {
    const Value& value = graph_.value(v);
    if (graph_.node(value.producer).op->kind == OpKind::parameter) return v;
    const auto table =
        std::ranges::find_if(value.gradient_of, [&](ValueId of) { return in_order_.contains(of); });
    const Node& made = graph_.node(value.producer);
    if (table == value.gradient_of.end() || made.phase == Phase::update) return in_order(v);
    const auto [known, is_new] = put_back_.try_emplace(v);
    if (!is_new) return known->second;
    const std::vector<bool>& dims = sequence_[at(table->index)];
    const auto d = static_cast<std::size_t>(std::ranges::find(dims, true) - dims.begin());
    Layout layout = made.strategy
                        ? layouts_of(rule_of(graph_, made), *made.strategy).results[at(value.result)]
                        : *value.layout;
    layout.dims[d] = {};
    builder_->set_phase(Phase::update);
    builder_->set_forward({});
    return known->second = reordered_on(layout, v, d, made.owner, true);
  }

  /// What all others read in order of what `node` makes, an input, a table with a row for each place, or done in place. Each rank has all of its sequence, which is little, and takes its part.
  void bring_into_order(const Node& node, ValueId v, const std::vector<bool>& dims) {
    if (std::ranges::count(dims, true) == 0 || !is_read_in_order_[at(v.index)]) return;
    const bool is_leaf = node.op->kind != OpKind::compute && node.op->kind != OpKind::step;
    Layout layout =
        is_leaf ? *out_.graph.value(v).layout
        : node.strategy
            ? layouts_of(rule_of(out_.graph, node), *node.strategy).results[at(graph_.value(v).result)]
            : replicated(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (dims[d]) layout.dims[d] = {};
    if (layout.used().empty()) layout.mesh = 0;
    if (node.op->kind == OpKind::input) out_.graph.value(v).layout = layout;
    if (!builder_) builder_.emplace(out_.graph);
    builder_->set_phase(node.phase);
    builder_->set_forward({});
    ValueId ordered = v;
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (dims[d]) ordered = reordered_on(layout, ordered, d, node.owner, false);
    in_order_.emplace(v, ordered);
  }

  /// Dim `d` of `v`, which lies so and has all of it, or addends of it.
  ValueId reordered_on(const Layout& layout, ValueId v, std::size_t d, NodeId owner, bool is_inverse) {
    const ValueId out = reordered(*builder_, v, d, order_, is_inverse);
    Node& made = out_.graph.nodes.back();
    const Rule rule = rule_of(out_.graph, made);
    made.strategy = whole(rule);
    for (std::size_t i = 0; i < layout.dims.size(); ++i)
      made.strategy->loops[at(rule.operands[0].dims[i][0])] = layout.dims[i];
    made.strategy->linear.front() = layout.sum;
    made.strategy->mesh = used_axes(*made.strategy).empty() ? 0 : layout.mesh;
    made.owner = owner;
    return out;
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
  std::int64_t order_ = 0;                   // 0: the sequence stands as it is
  std::vector<std::vector<bool>> sequence_;  // its dims, per value
  std::vector<bool> in_place_;               // per node: done before it is brought into order
  std::vector<bool> is_read_in_order_;       // per value
  std::map<ValueId, ValueId> in_order_;      // inputs, tables of places, and what is done in place
  std::map<ValueId, ValueId> put_back_;      // gradients of such tables
  Expanded out_;
  std::optional<Builder> builder_;  // of a graph with an operator to expand
  std::vector<NodeId> moved_;       // per node, or the one that makes its first result
};

}  // namespace

bool has_to_be_expanded(const Graph& graph, std::int64_t order) {
  return order > 0 || std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const Node& node) { return is_to_expand(graph, node); });
}

Expanded expanded(const Graph& graph, std::int64_t order) { return Expansion(graph, order).run(); }

}  // namespace shardwright
