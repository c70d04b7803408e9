// The values of an ONNX graph by name, while it is imported: what is known of each, and how it gets into the graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/reading.h"
#include "shardwright/frontend/trace.h"

namespace shardwright {

/// What becomes of a value that training does not change: the node only reads it, or moves it as it trains.
enum class StateUse { read, moved };

/// A value of the model. It enters the graph when something that is computed there needs it.
struct Known {
  Type type;
  ValueId id;                              // in the graph, once it is there
  ValueId state;                           // the same as a state; exporters make equal initializers one
  StateUse use = StateUse::read;           // of the state
  std::shared_ptr<const Tensor> constant;  // its elements, if they do not depend on inputs or parameters
  const onnx::TensorProto* parameter = nullptr;  // a floating initializer: trained, or kept by a batch norm
  bool is_missing = false;                       // a result that conversion does not make
  std::string alias = {};                        // it is the initializer of this name
};

class Values {
 public:
  /// Takes over the initializers. Throws: Error naming one that is given twice or is not as it says.
  Values(const OnnxFile& file, Trace& trace);

  Trace& trace() { return trace_; }
  DType precision() const { return trace_.precision(); }
  /// That of states and losses.
  DType kept_precision() const { return trace_.kept_precision(); }
  bool is_mixed() const { return trace_.is_mixed(); }

  /// Throws: Error if there is a value called `name`.
  void define(const std::string& name, Known value);
  bool has(const std::string& name) const { return values_.contains(name); }
  /// The value called `name`, or the initializer that it is. Throws: Error if there is none (yet).
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
  std::map<std::string, InitialValue>& initial() { return initial_; }
  /// Says that the integers of `v` are below `classes`.
  void tell_classes(ValueId v, std::int64_t classes) { classes_[v] = classes; }
  /// 0 if nothing says so.
  std::int64_t classes_of(ValueId v) const { return classes_.contains(v) ? classes_.at(v) : 0; }
  /// Counts nodes that do what they do outside of training, by operator.
  /// A loss is not the mean over the samples that count alike.
  void tell_uneven_loss() { has_uneven_loss_ = true; }
  bool has_uneven_loss() const { return has_uneven_loss_; }
  void tell_inactive(const std::string& op) { ++inactive_[op]; }
  const std::map<std::string, int>& inactive() const { return inactive_; }

 private:
  ValueId leaf(OpKind kind, const std::string& name, const Type& type);
  InitialValue initial_value(const onnx::TensorProto& tensor, DType dtype) const;
  Known known(const onnx::TensorProto& tensor);

  const OnnxFile& file_;
  Trace& trace_;
  std::unordered_map<std::string, Known> values_;
  std::set<std::string> initializers_;
  std::set<std::string> reserved_;  // names of leaves, as the graph writes them
  std::map<std::string, InitialValue> initial_;
  std::map<ValueId, std::int64_t> classes_;
  std::map<std::string, int> inactive_;  // by operator
  bool has_uneven_loss_ = false;
  int constants_ = 0;  // how many are in the graph
  std::int64_t budget_ = limits::computed_elements;
  std::map<std::string, std::int64_t> external_;  // bytes of each file that tensors have
};

/// `name` with `_` for what the text form of graphs has not in names.
std::string graph_name(const std::string& name);

/// The type in the graph: all floating types are the model's precision.
Type in_precision(Type type, DType precision);

}  // namespace shardwright
