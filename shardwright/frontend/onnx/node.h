// One node of an ONNX model as its conversion sees it: operands, attributes, and calls that go into the graph.
//
// What does not depend on inputs or parameters (shapes, mostly) is computed while the model is loaded, by the same
// conversions: they write their calls into a small graph of its own, whose kernels run at once (importer.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/frontend/onnx/scope.h"
#include "shardwright/frontend/onnx/values.h"

namespace shardwright {

class OnnxNode {
 public:
  /// Where the node's operands are found and its calls are added.
  struct Target {
    Builder& builder;
    std::function<ValueId(Known&)> enter;
    std::function<ValueId(const std::string&, StateUse)> enter_state;
    std::function<ValueId(const std::shared_ptr<const Tensor>&)> enter_constant;
  };
  OnnxNode(const onnx::NodeProto& proto, const Scope& scope, Values& values, Target target);

  const std::string& op() const { return proto_.op_type(); }
  std::int64_t opset() const { return scope_.opset(); }
  /// Where the node stands, for one that has graphs of its own.
  const Scope& scope() const { return scope_; }
  DType precision() const { return values_.precision(); }
  DType kept_precision() const { return values_.kept_precision(); }
  bool is_mixed() const { return values_.is_mixed(); }

  // ---- operands ----

  std::size_t input_count() const { return static_cast<std::size_t>(proto_.input_size()); }
  std::size_t output_count() const { return static_cast<std::size_t>(proto_.output_size()); }
  /// There is an input `i`; optional ones may be left out.
  bool has(std::size_t i) const { return i < inputs_.size() && !inputs_[i].empty(); }
  /// There is an output `i`, and something reads it.
  bool gives(std::size_t i) const {
    return i < output_count() && values_.is_read(proto_.output(static_cast<int>(i)));
  }
  /// The output's name. Throws: Error if there is none.
  std::string output(std::size_t i) const;
  /// Throws: Error if input `i` is left out.
  const Type& type(std::size_t i) const { return known(i).type; }
  const Shape& shape(std::size_t i) const { return type(i).shape; }
  /// The input in the graph.
  ValueId in(std::size_t i) const { return target_.enter(known(i)); }
  ValueId state(std::size_t i, StateUse use = StateUse::read) const;
  /// The input in the graph, not trained if it is an initializer.
  ValueId untrained(std::size_t i) const;
  /// Says that `labels`, and what they are made of, are integers below `classes`.
  void tell_classes(ValueId labels, std::int64_t classes);
  /// Says that the node does what it does outside of training.
  void tell_inactive() const { values_.tell_inactive(op()); }
  /// Whether the node does what it does in training, as the file `says_so` or the user does.
  bool trains(bool says_so) const { return values_.trains(says_so); }
  /// Says that the node is a loss which sums, weighs or leaves out: of parts of a batch it is another number.
  void tell_uneven_loss() const { values_.tell_uneven_loss(); }
  /// The elements of an input that must be known. Throws: Error if they depend on the model's inputs.
  bool is_known(std::size_t i) const { return known(i).constant != nullptr; }
  bool is_computed(std::size_t i) const { return !known(i).constant && !known(i).stored; }
  /// It is one number that is known or that the file holds.
  bool is_number(std::size_t i) const {
    return element_count(shape(i)) == 1 && (is_known(i) || known(i).stored);
  }
  std::shared_ptr<const Tensor> constant(std::size_t i) const;
  std::vector<std::int64_t> integers_of(std::size_t i) const;
  double number_of(std::size_t i) const;
  /// The only number that is input `i`, if it is a known scalar; parameters are not looked at.
  std::optional<double> known_number(std::size_t i) const;
  /// The same of a scalar without dims, also of an initializer that would be a parameter.
  std::optional<double> written_number(std::size_t i) const;

  // ---- attributes; those that nothing asks for are refused ----

  bool has_attribute(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> otherwise = {}) const;
  std::vector<std::string> texts(std::string_view name) const;
  std::vector<double> numbers(std::string_view name, std::vector<double> otherwise = {}) const;
  const onnx::TensorProto* tensor(std::string_view name) const;
  /// Integers of input `i`, or of the attribute that it was in earlier operator sets; nothing if it is left out.
  std::vector<std::int64_t> integers_of(std::size_t i, std::string_view attribute) const;
  /// A dim counted from the left. Throws: Error if x has no dim `dim`.
  std::int64_t dim(std::int64_t dim, std::size_t rank) const;
  /// Throws: Error naming an attribute that nothing has asked for.
  void check_attributes_read() const;

  // ---- results ----

  /// The call that does the node's work: it is called as the node.
  ValueId main(std::string_view op, std::vector<ValueId> operands, Attributes attributes = {});
  /// One before or behind it: `NODE.OP`.
  ValueId call(std::string_view op, std::vector<ValueId> operands, Attributes attributes = {});
  std::vector<ValueId> main_all(std::string_view op, std::vector<ValueId> operands,
                                Attributes attributes = {});
  ValueId constant(Tensor tensor) const;
  const Type& type_of(ValueId v) const { return target_.builder.type(v); }
  Builder& builder() { return target_.builder; }
  const std::string& name() const { return name_; }

  /// Gives the next result.
  void give(ValueId v);
  void give(Tensor constant);
  /// A tensor of the node itself, which is a parameter or not as an initializer is.
  void give_stored(const onnx::TensorProto& tensor);
  void give_stored(Tensor tensor);
  /// Input `i` is the next result: an initializer stays one, so that a batch norm may keep it as a statistic.
  void give_input(std::size_t i);
  std::vector<Known>& results() { return results_; }

 private:
  Known& known(std::size_t i) const;
  const onnx::AttributeProto* attribute(std::string_view name, int type) const;

  const onnx::NodeProto& proto_;
  const Scope& scope_;
  Values& values_;
  Target target_;
  std::string name_;
  std::vector<std::string> inputs_;  // as the whole model calls them
  mutable std::set<std::string, std::less<>> asked_for_;
  std::vector<Known> results_;
};

}  // namespace shardwright
