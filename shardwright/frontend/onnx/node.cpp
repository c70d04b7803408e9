#include "shardwright/frontend/onnx/node.h"

#include <cstdlib>

#include "shardwright/base/error.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/tensors.h"

namespace shardwright {
namespace {

using onnx::AttributeProto;

/// A float was a decimal number once, such as 1e-5: the double that is nearest to that number, not to the float.
double as_written(float x) { return std::strtod(fmt::format("{}", x).c_str(), nullptr); }

}  // namespace

OnnxNode::OnnxNode(const onnx::NodeProto& proto, const Scope& scope, Values& values, Target target)
    : proto_(proto),
      scope_(scope),
      values_(values),
      target_(std::move(target)),
      name_(values.node_name(scope.prefix() + name_of(proto))) {
  for (const std::string& name : proto.input()) inputs_.push_back(scope.value(name));
}

Known& OnnxNode::known(std::size_t i) const {
  if (!has(i)) throw error("input {} is left out but is needed", i);
  Known& value = values_.at(inputs_[i]);
  if (value.is_missing)
    throw error("its input '{}' is a result that is not supported: only the first ones of that node are made",
                printable(inputs_[i]));
  return value;
}

ValueId OnnxNode::state(std::size_t i, StateUse use) const {
  known(i);
  return target_.enter_state(inputs_[i], use);
}

ValueId OnnxNode::untrained(std::size_t i) const { return known(i).stored ? state(i) : in(i); }

void OnnxNode::tell_classes(ValueId labels, std::int64_t classes) {
  const Graph& graph = target_.builder.graph();
  const Node* node = &graph.node(graph.value(labels).producer);
  for (; node->operands.size() == 1; node = &graph.node(graph.value(labels).producer))
    labels = node->operands.front();
  values_.tell_classes(labels, classes);
}

std::shared_ptr<const Tensor> OnnxNode::constant(std::size_t i) const {
  auto elements = values_.elements(known(i));
  if (!elements)
    throw error(
        "its input '{}' depends on the model's inputs, which is not supported; it should be a constant",
        printable(inputs_[i]));
  return elements;
}

std::vector<std::int64_t> OnnxNode::integers_of(std::size_t i) const {
  const auto tensor = constant(i);
  if (tensor->shape().size() > 1 || (tensor->dtype() != DType::i64 && tensor->dtype() != DType::i32))
    throw error("input {} is {} but should be a list of integers", i, to_text(tensor->type()));
  const Tensor wide = convert(*tensor, DType::i64);
  const auto numbers = wide.as<std::int64_t>();
  return {numbers.begin(), numbers.end()};
}

double OnnxNode::number_of(std::size_t i) const {
  const auto tensor = constant(i);
  if (tensor->size() != 1) throw error("input {} is {} but should be one number", i, to_text(tensor->type()));
  return to_doubles(*tensor).front();
}

std::optional<double> OnnxNode::known_number(std::size_t i) const {
  const Known& value = known(i);
  if (!value.constant || value.constant->size() != 1) return std::nullopt;
  return to_doubles(*value.constant).front();
}

std::optional<double> OnnxNode::written_number(std::size_t i) const {
  const Known& value = known(i);
  if (!value.type.shape.empty()) return std::nullopt;
  const auto elements = values_.elements(value);
  return elements ? std::optional(to_doubles(*elements).front()) : std::nullopt;
}

const AttributeProto* OnnxNode::attribute(std::string_view name, int type) const {
  asked_for_.emplace(name);
  const AttributeProto* a = scope_.attribute(proto_, name);
  if (a && a->type() != type)
    throw error("attribute '{}' is of type {} but should be of type {}", name,
                AttributeProto::AttributeType_Name(a->type()),
                AttributeProto::AttributeType_Name(static_cast<AttributeProto::AttributeType>(type)));
  return a;
}

bool OnnxNode::has_attribute(std::string_view name) const { return scope_.attribute(proto_, name); }

std::int64_t OnnxNode::integer(std::string_view name, std::int64_t otherwise) const {
  const AttributeProto* a = attribute(name, AttributeProto::INT);
  return a ? a->i() : otherwise;
}

double OnnxNode::number(std::string_view name, double otherwise) const {
  const AttributeProto* a = attribute(name, AttributeProto::FLOAT);
  return a ? as_written(a->f()) : otherwise;
}

std::string OnnxNode::text(std::string_view name, std::string_view otherwise) const {
  const AttributeProto* a = attribute(name, AttributeProto::STRING);
  return a ? a->s() : std::string(otherwise);
}

std::vector<std::int64_t> OnnxNode::integers(std::string_view name,
                                             std::vector<std::int64_t> otherwise) const {
  const AttributeProto* a = attribute(name, AttributeProto::INTS);
  return a ? std::vector<std::int64_t>{a->ints().begin(), a->ints().end()} : otherwise;
}

std::vector<std::string> OnnxNode::texts(std::string_view name) const {
  const AttributeProto* a = attribute(name, AttributeProto::STRINGS);
  return a ? std::vector<std::string>{a->strings().begin(), a->strings().end()} : std::vector<std::string>{};
}

std::vector<double> OnnxNode::numbers(std::string_view name, std::vector<double> otherwise) const {
  const AttributeProto* a = attribute(name, AttributeProto::FLOATS);
  if (!a) return otherwise;
  std::vector<double> out;
  for (float x : a->floats()) out.push_back(as_written(x));
  return out;
}

const onnx::TensorProto* OnnxNode::tensor(std::string_view name) const {
  const AttributeProto* a = attribute(name, AttributeProto::TENSOR);
  if (a && is_external(a->t()))
    throw error("attribute '{}' is external data, which only initializers may be", name);
  return a ? &a->t() : nullptr;
}

std::vector<std::int64_t> OnnxNode::integers_of(std::size_t i, std::string_view attribute) const {
  return has(i) ? integers_of(i) : integers(attribute);
}

std::int64_t OnnxNode::dim(std::int64_t dim, std::size_t rank) const {
  const auto n = static_cast<std::int64_t>(rank);
  if (dim < -n || dim >= n) throw error("axis {} does not exist among {} dims", dim, n);
  return dim < 0 ? dim + n : dim;
}

void OnnxNode::check_attributes_read() const {
  for (const AttributeProto& a : proto_.attribute())
    if (!asked_for_.contains(a.name()) && scope_.attribute(proto_, a.name()))
      throw error("attribute '{}' is not supported", printable(a.name()));
}

ValueId OnnxNode::main(std::string_view op, std::vector<ValueId> operands, Attributes attributes) {
  return target_.builder.call(op, std::move(operands), std::move(attributes), name_);
}

ValueId OnnxNode::call(std::string_view op, std::vector<ValueId> operands, Attributes attributes) {
  return target_.builder.call(op, std::move(operands), std::move(attributes),
                              fmt::format("{}.{}", name_, op));
}

std::vector<ValueId> OnnxNode::main_all(std::string_view op, std::vector<ValueId> operands,
                                        Attributes attributes) {
  return target_.builder.call_all(find_op(op), std::move(operands), std::move(attributes), name_);
}

ValueId OnnxNode::constant(Tensor tensor) const {
  values_.spend(tensor.size());
  return target_.enter_constant(std::make_shared<const Tensor>(std::move(tensor)));
}

void OnnxNode::give(ValueId v) { results_.push_back({.type = type_of(v), .id = v}); }

void OnnxNode::give_input(std::size_t i) {
  const Known& value = known(i);
  if (!value.stored) return give(in(i));
  results_.push_back({.type = value.type, .alias = inputs_[i]});
}

std::string OnnxNode::output(std::size_t i) const {
  if (i >= output_count()) throw error("has no output {}", i);
  return scope_.value(proto_.output(static_cast<int>(i)));
}

void OnnxNode::give_stored(const onnx::TensorProto& tensor) {
  results_.push_back(values_.stored(tensor, output(0), true));
}
void OnnxNode::give_stored(Tensor tensor) {
  results_.push_back(values_.stored(std::move(tensor), output(0)));
}

void OnnxNode::give(Tensor constant) {
  values_.spend(constant.size());
  results_.push_back(
      {.type = constant.type(), .constant = std::make_shared<const Tensor>(std::move(constant))});
}

}  // namespace shardwright
