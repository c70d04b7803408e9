// A copy of a graph that somebody makes node by node, with more nodes in between.
#pragma once

#include <utility>
#include <vector>

#include "shardwright/base/index.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// Copies a graph node by node, with more nodes in between.
class GraphCopy {
 public:
  explicit GraphCopy(const Graph& from)
      : from_(from),
        values_(from.values.size()),
        accumulated_(from.values.size()),
        before_update_(from.values.size()),
        kept_(from.values.size()),
        nodes_(from.nodes.size()) {
    out_.level = from.level;
    out_.meshes = from.meshes;
  }

  ValueId of(ValueId v) const { return values_[at(v.index)]; }
  NodeId of(NodeId id) const { return nodes_[at(id.index)]; }
  /// Where the update reads `v`, it reads `instead`.
  void accumulate(ValueId v, ValueId instead) { accumulated_[at(v.index)] = instead; }

  /// Where forward and backward read `v`, they read `instead`.
  void replace_before_update(ValueId v, ValueId instead) { before_update_[at(v.index)] = instead; }

  /// Where a leaf takes `v`, it takes `instead`.
  void keep(ValueId v, ValueId instead) { kept_[at(v.index)] = instead; }

  void add(NodeId id, Phase phase) {
    Node node = from_.node(id);
    node.phase = phase;
    for (ValueId& v : node.operands) {
      const ValueId instead = (phase == Phase::update ? accumulated_ : before_update_)[at(v.index)];
      v = instead.is_valid() ? instead : of(v);
    }
    if (node.forward.is_valid()) node.forward = of(node.forward);
    std::vector<Value> results;
    for (ValueId v : node.results) {
      Value value = from_.value(v);
      for (ValueId& of_value : value.gradient_of) of_value = of(of_value);
      results.push_back(std::move(value));
    }
    const std::vector<ValueId> old = node.results;
    nodes_[at(id.index)] = {static_cast<int>(out_.nodes.size())};
    const std::vector<ValueId> fresh = add(std::move(node), std::move(results));
    for (std::size_t r = 0; r < old.size(); ++r) values_[at(old[r].index)] = fresh[r];
  }

  std::vector<ValueId> add(Node node, std::vector<Value> results) {
    const NodeId id{static_cast<int>(out_.nodes.size())};
    node.results.clear();
    for (std::size_t r = 0; r < results.size(); ++r) {
      results[r].producer = id;
      results[r].result = static_cast<int>(r);
      node.results.push_back({static_cast<int>(out_.values.size())});
      out_.values.push_back(std::move(results[r]));
    }
    out_.nodes.push_back(std::move(node));
    return out_.nodes.back().results;
  }

  Graph finish() {
    const auto or_else = [this](ValueId instead, ValueId v) { return instead.is_valid() ? instead : of(v); };
    for (ValueId v : from_.outputs) out_.outputs.push_back(or_else(before_update_[at(v.index)], v));
    for (const Update& u : from_.updates)
      out_.updates.push_back({of(u.leaf), or_else(kept_[at(u.value.index)], u.value)});
    return std::move(out_);
  }

  Graph& graph() { return out_; }
  const Graph& graph() const { return out_; }

 private:
  const Graph& from_;
  Graph out_;
  std::vector<ValueId> values_;         // by value of `from_`
  std::vector<ValueId> accumulated_;    // the same, where there is a sum
  std::vector<ValueId> before_update_;  // what forward and backward read instead, where there is something
  std::vector<ValueId> kept_;           // what leaves take instead
  std::vector<NodeId> nodes_;
};

}  // namespace shardwright
