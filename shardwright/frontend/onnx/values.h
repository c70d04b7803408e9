// The values of an ONNX graph by name, while it is imported: what is known of each, and how it gets into the graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/onnx/exporter.h"
#include "shardwright/frontend/onnx/input_sizes.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/reading.h"
#include "shardwright/frontend/trace.h"

namespace shardwright {

/// What becomes of a value that training does not change: the node only reads it, or moves it as it trains.
enum class StateUse { read, moved };

/// A tensor that the file holds, and that enters the graph as a leaf: a parameter, or what is only read.
struct Stored {
  std::string name;  // as the file calls it
  std::function<Tensor()> read;
  bool is_trained = false;
};

/// A value of the model. It enters the graph when something that is computed there needs it.
struct Known {
  Type type;
  ValueId id;                              // in the graph, once it is there
  ValueId state;                           // the same as a state; exporters make equal initializers one
  StateUse use = StateUse::read;           // of the state
  std::shared_ptr<const Tensor> constant;  // its elements, if they do not depend on inputs or parameters
  std::shared_ptr<const Stored> stored;    // where they are in the file, unless they are few and not trained
  bool is_missing = false;                 // a result that conversion does not make
  std::string alias = {};                  // it is the value of this name
};

class Values {
 public:
  /// Takes over the initializers. Throws: Error naming one that is given twice or is not as it says.
  Values(const OnnxFile& file, Trace& trace, const SaidOfTraining& said, bool asks_for_all);

  /// Once all nodes are there. Throws: Error if nothing is called as what is said to be frozen.
  void check_frozen() const;
  /// Takes over those of a graph inside, whose names begin with `prefix`. Throws: Error likewise.
  void add_initializers(const onnx::GraphProto& graph, const std::string& prefix);
  /// A tensor of the file, called `name`, an initializer or of a node.
  Known stored(const onnx::TensorProto& tensor, const std::string& name, bool is_of_node);
  /// The same of numbers that a node lists.
  Known stored(Tensor tensor, const std::string& name);
  const ExportedNetwork& exported() const { return exported_; }
  /// Whether a node may read an output that is called `name` where it stands, or it is asked for.
  bool is_read(const std::string& name) const { return read_.contains(name); }
  void tell_read(const std::string& name) { read_.insert(name); }

  Trace& trace() { return trace_; }
  DType precision() const { return trace_.precision(); }
  /// That of states and losses.
  DType kept_precision() const { return trace_.kept_precision(); }
  bool is_mixed() const { return trace_.is_mixed(); }

  /// Throws: Error if there is a value called `name`.
  void define(const std::string& name, Known value);
  bool has(const std::string& name) const { return values_.contains(name); }
  /// The value called `name`, or the one that it is. Throws: Error if there is none (yet).
  Known& at(const std::string& name);
  bool is_initializer(const std::string& name) const { return initializers_.contains(name); }

  /// The value in the graph: a parameter, a constant's leaf, or what it is already.
  ValueId enter(Known& value);
  /// A floating initializer or constant as a state, which training does not change. What one node moves no other may
  /// use. Throws: Error if one does.
  ValueId enter_state(const std::string& name, StateUse use);
  /// A constant in the graph: a `fill` if all its elements are one, else a state that keeps what it starts with.
  ValueId enter_constant(const std::shared_ptr<const Tensor>& constant);
  /// Counts elements that are computed or read while loading, which cost time and memory beside the file's.
  /// Throws: Error over limits::computed_elements in all.
  void spend(std::int64_t elements);
  std::int64_t& budget() { return budget_; }
  /// The elements of a value, if it is a constant or an initializer of at most limits::constant_elements.
  std::shared_ptr<const Tensor> elements(const Known& value);

  /// `wanted` as the graph's text can write it, and as no leaf of the model is called.
  std::string node_name(const std::string& wanted) const;
  /// What the model's input `name` is called in the graph.
  const std::string& input_name(const std::string& name) { return leaf_name(name); }
  std::map<std::string, InitialValue>& initial() { return initial_; }
  /// Says that the integers of `v` are below `classes`.
  void tell_classes(ValueId v, std::int64_t classes) { classes_[v] = classes; }
  /// 0 if nothing says so.
  std::int64_t classes_of(ValueId v) const { return classes_.contains(v) ? classes_.at(v) : 0; }
  /// A loss is not the mean over the samples that count alike.
  void tell_uneven_loss() { has_uneven_loss_ = true; }
  bool has_uneven_loss() const { return has_uneven_loss_; }
  /// Whether a node does what it does in training, if it `says_so`.
  bool trains(bool says_so) {
    if (said_.trains && !says_so) ++told_to_train_;
    return says_so || said_.trains;
  }
  /// How many nodes train that do not say so.
  int told_to_train() const { return told_to_train_; }
  /// Counts nodes that do what they do outside of training, by operator.
  void tell_inactive(const std::string& op) { ++inactive_[op]; }
  const std::map<std::string, int>& inactive() const { return inactive_; }

 private:
  ValueId leaf(OpKind kind, const std::string& name, const Type& type);
  /// How the graph calls the leaf that the file calls `name`: as no other leaf.
  const std::string& leaf_name(const std::string& name);
  void check_external(const onnx::TensorProto& tensor);
  bool is_trained(const Type& type, const std::string& name, bool is_of_node);
  Known known(const Type& type, Stored stored, bool is_of_node);

  const OnnxFile& file_;
  Trace& trace_;
  const SaidOfTraining& said_;
  ExportedNetwork exported_;
  std::unordered_map<std::string, Known> values_;
  std::set<std::string> initializers_, stored_;    // stored ones are of nodes, too
  std::set<std::string> reserved_;                 // names of leaves, as the graph writes them
  std::map<std::string, std::string> leaf_names_;  // as the file writes them -> as the graph does
  std::map<std::string, InitialValue> initial_;
  std::set<std::string> read_;  // names of values that something reads
  std::map<ValueId, std::int64_t> classes_;
  std::map<std::string, int> inactive_;  // by operator
  bool has_uneven_loss_ = false;
  int told_to_train_ = 0;
  int constants_ = 0;  // how many are in the graph
  std::int64_t budget_ = limits::computed_elements;
  std::map<std::string, std::int64_t> external_;  // bytes of each file that tensors have
};

/// `name` with `_` for what the text form of graphs has not in names.
std::string graph_name(const std::string& name);

/// The type in the graph: all floating types are the model's precision.
Type in_precision(Type type, DType precision);

}  // namespace shardwright
