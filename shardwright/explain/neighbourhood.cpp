#include "shardwright/explain/neighbourhood.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

class Extraction {
 public:
  Extraction(const Graph& graph, NodeId id)
      : graph_(graph),
        id_(id),
        is_touched_(graph.values.size(), false),
        is_own_(graph.nodes.size(), false),
        new_node_(graph.nodes.size()),
        new_value_(graph.values.size()) {}

  Neighbourhood run() {
    touch_own();
    touch_gradients();
    touch_updates();
    out_.graph.level = graph_.level;
    out_.graph.meshes = graph_.meshes;
    for (NodeId id : graph_.node_ids())
      if (is_near(graph_.node(id))) add(id);
    for (ValueId v : graph_.outputs)
      if (has(v)) out_.graph.outputs.push_back(new_value_[at(v.index)]);
    for (const Update& u : graph_.updates)
      if (has(u.leaf) && has(u.value))
        out_.graph.updates.push_back({new_value_[at(u.leaf.index)], new_value_[at(u.value.index)]});
    out_.node = new_node_[at(id_.index)];
    return std::move(out_);
  }

 private:
  bool touches(ValueId v) const { return is_touched_[at(v.index)]; }
  bool has(ValueId v) const { return new_value_[at(v.index)].is_valid(); }
  void touch(std::span<const ValueId> values) {
    for (ValueId v : values) is_touched_[at(v.index)] = true;
  }

  void touch_own() {
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (id != id_ && node.forward != id_) continue;
      is_own_[at(id.index)] = true;
      touch(node.operands);
      touch(node.results);
      if (id == id_) own_values_ = node.operands;
      if (id == id_) own_values_.insert(own_values_.end(), node.results.begin(), node.results.end());
    }
  }

  /// Gradients of what the operator reads and makes, and of both the sums.
  void touch_gradients() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      for (ValueId of : graph_.values[i].gradient_of)
        if (std::find(own_values_.begin(), own_values_.end(), of) != own_values_.end()) is_touched_[i] = true;
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::backward || node.forward.is_valid() || node.operands.size() < 2) continue;
      const bool is_near_sum =
          touches(node.results.front()) ||
          std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId v) { return touches(v); });
      if (!is_near_sum) continue;
      is_own_[at(id.index)] = true;
      touch(node.operands);
      touch(node.results);
    }
  }

  /// Of parameters that the operator reads: gradients are touched already, states follow the parameter.
  void touch_updates() {
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (!node.op->optimizer || !touches(node.operands[0])) continue;
      is_own_[at(id.index)] = true;
      touch(std::span(node.operands).first(2));
      touch(state_operands(node));
      touch(node.results);
    }
    touch_beside_updates();
  }

  /// What the update computes of these gradients (clipping).
  void touch_beside_updates() {
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::update || node.op->kind != OpKind::compute || node.op->optimizer) continue;
      const bool reads_gradient = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId v) {
        return touches(v) && !graph_.value(v).gradient_of.empty();
      });
      if (!reads_gradient) continue;
      is_own_[at(id.index)] = true;
      touch(node.results);
    }
  }

  bool is_near(const Node& node) const {
    const auto is_touched = [&](ValueId v) { return touches(v); };
    return std::any_of(node.operands.begin(), node.operands.end(), is_touched) ||
           std::any_of(node.results.begin(), node.results.end(), is_touched);
  }

  /// The layout in which a value that is not touched gets here: as made, then reduced or brought where it is asked.
  Layout layout_of(ValueId v) const {
    const Value& value = graph_.value(v);
    if (value.layout) return *value.layout;
    const Node& node = graph_.node(value.producer);
    return reduced(layouts_of(rule_of(graph_, node), *node.strategy).results[at(value.result)]);
  }

  /// A value from outside; it stands for a leaf whatever made it.
  void add_leaf(ValueId v) {
    Graph& graph = out_.graph;
    const NodeId fresh{static_cast<int>(graph.nodes.size())};
    const NodeId producer = graph_.value(v).producer;
    const bool is_leaf = graph_.node(producer).op->kind != OpKind::compute;
    new_value_[at(v.index)] = {static_cast<int>(graph.values.size())};
    graph.nodes.push_back({.op = is_leaf ? graph_.node(producer).op : &op_of(OpKind::input),
                           .operands = {},
                           .results = {new_value_[at(v.index)]},
                           .attributes = {}});
    Value value = graph_.value(v);
    value.layout = layout_of(v);
    value.producer = fresh;
    value.result = 0;
    keep_known(value.gradient_of);
    graph.values.push_back(std::move(value));
    out_.is_touched.push_back(false);
    out_.is_own.push_back(false);
  }

  void keep_known(std::vector<ValueId>& values) const {
    for (ValueId& v : values) v = new_value_[at(v.index)];
    std::erase_if(values, [](ValueId v) { return !v.is_valid(); });
  }

  void add(NodeId id) {
    Node node = graph_.node(id);
    for (ValueId v : node.operands)
      if (!has(v)) add_leaf(v);
    // A sum of gradients looks at the value that it is the gradient of.
    for (ValueId v : node.results)
      if (is_own_[at(id.index)] && !graph_.value(v).gradient_of.empty() &&
          !has(graph_.value(v).gradient_of[0]))
        add_leaf(graph_.value(v).gradient_of[0]);
    Graph& graph = out_.graph;
    const NodeId fresh{static_cast<int>(graph.nodes.size())};
    new_node_[at(id.index)] = fresh;
    for (ValueId& v : node.operands) v = new_value_[at(v.index)];
    for (ValueId& v : node.results) {
      Value value = graph_.value(v);
      value.producer = fresh;
      keep_known(value.gradient_of);
      out_.is_touched.push_back(touches(v));
      new_value_[at(v.index)] = {static_cast<int>(graph.values.size())};
      v = new_value_[at(v.index)];
      graph.values.push_back(std::move(value));
    }
    if (node.forward.is_valid()) node.forward = new_node_[at(node.forward.index)];
    graph.nodes.push_back(std::move(node));
    out_.is_own.push_back(is_own_[at(id.index)]);
  }

  const Graph& graph_;
  NodeId id_;
  std::vector<ValueId> own_values_;  // that the operator reads and makes
  std::vector<bool> is_touched_;     // per value of `graph_`
  std::vector<bool> is_own_;         // per node of `graph_`
  std::vector<NodeId> new_node_;
  std::vector<ValueId> new_value_;
  Neighbourhood out_;
};

}  // namespace

Neighbourhood neighbourhood_of(const Graph& graph, NodeId id) { return Extraction(graph, id).run(); }

}  // namespace shardwright
