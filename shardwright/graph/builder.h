// Adds nodes to a graph: infers types, gives unique names, stamps phase and forward node.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/graph/op.h"

namespace shardwright {

class Builder {
 public:
  explicit Builder(Graph& graph);

  Graph& graph() { return graph_; }
  const Type& type(ValueId v) const { return graph_.value(v).type; }

  /// Adds a call and returns its only (or first) result. `name` is made unique; empty = a number.
  /// Throws: Error naming operator and node when shapes do not fit.
  ValueId call(std::string_view op, std::vector<ValueId> operands, Attributes attributes = {},
               std::string_view name = "");
  /// The same for operators of several results.
  std::vector<ValueId> call_all(const OpDef& op, std::vector<ValueId> operands, Attributes attributes = {},
                                std::string_view name = "");

  /// Leaves. The name must be free: Throws: Error otherwise.
  ValueId leaf(OpKind kind, std::string_view name, Type type, Attributes attributes = {});

  /// What the next nodes are stamped with.
  void set_phase(Phase phase) { phase_ = phase; }
  void set_forward(NodeId forward) { forward_ = forward; }

 private:
  NodeId add(const OpDef& op, std::vector<ValueId> operands, Attributes attributes, std::string_view name);
  /// A value with a free name enters the graph.
  ValueId add(Value value);
  /// `name`, or `name_2`, `name_3`, ... if it is taken; a number for an empty one.
  std::string free_name(std::string_view name);

  // Values by name: only their ids are kept, for a graph may have many thousands.
  struct HashOfName {
    using is_transparent = void;
    const Graph* graph;
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
    std::size_t operator()(ValueId v) const { return (*this)(graph->value(v).name); }
  };
  struct SameName {
    using is_transparent = void;
    const Graph* graph;
    bool operator()(ValueId a, ValueId b) const { return a == b; }
    bool operator()(std::string_view name, ValueId v) const { return name == graph->value(v).name; }
  };

  Graph& graph_;
  Phase phase_ = Phase::forward;
  NodeId forward_;
  std::unordered_set<ValueId, HashOfName, SameName> names_;
  std::unordered_map<std::string, int> repeats_;  // how many values wanted a name that was taken
  int next_number_ = 1;
  std::vector<Type> operand_types_;  // of the call that is being added; kept for its memory
};

/// What an operator's `gradient` sees: the node, the gradients of its results, and a way to add calls.
class Gradient {
 public:
  Gradient(Builder& builder, NodeId node, std::vector<ValueId> result_gradients)
      : builder_(builder), node_(node), result_gradients_(std::move(result_gradients)) {}

  ValueId in(std::size_t i) const { return node().operands[i]; }
  ValueId out(std::size_t i = 0) const { return node().results[i]; }
  /// Gradient of result `i`; invalid if none flows there.
  ValueId dy(std::size_t i = 0) const { return result_gradients_[i]; }
  std::size_t operand_count() const { return node().operands.size(); }
  const Type& type(ValueId v) const { return builder_.type(v); }
  const Attributes& attributes() const { return node().attributes; }
  ValueId call(std::string_view op, std::vector<ValueId> operands, Attributes attributes = {}) {
    return builder_.call(op, std::move(operands), std::move(attributes));
  }
  std::vector<ValueId> call_all(std::string_view op, std::vector<ValueId> operands,
                                Attributes attributes = {}) {
    return builder_.call_all(find_op(op), std::move(operands), std::move(attributes));
  }

 private:
  const Node& node() const { return builder_.graph().node(node_); }
  Builder& builder_;
  NodeId node_;
  std::vector<ValueId> result_gradients_;
};

}  // namespace shardwright
