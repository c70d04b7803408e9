// ONNX operators that make values of numbers that are known while the model is loaded.

#include <cmath>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/tensors.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

Tensor list_of(const List& numbers) {
  Tensor t({DType::i64, {static_cast<std::int64_t>(numbers.size())}});
  std::ranges::copy(numbers, t.as<std::int64_t>().begin());
  return t;
}

/// As the graph holds it: floating types are the model's precision.
Tensor in_graph(const OnnxNode& n, const Tensor& t) {
  return is_floating(t.dtype()) ? convert(t, n.precision()) : t;
}

/// An attribute, which is in the model's file.
Tensor read_small(const OnnxNode& n, const onnx::TensorProto& tensor) {
  const Type type = checked_type(tensor, {});
  if (element_count(type.shape) > limits::constant_elements)
    throw error("a constant of {} has more than {} elements; make it an initializer", to_text(type),
                limits::constant_elements);
  return in_graph(n, read_tensor(tensor, {}));
}

/// Numbers and what shapes are made of are known at once; tensors may be weights.
void constant(OnnxNode& n) {
  if (n.has_attribute("value")) return n.give_stored(*n.tensor("value"));
  if (n.has_attribute("value_int")) {
    Tensor t({DType::i64, {}});
    t.as<std::int64_t>()[0] = n.integer("value_int", 0);
    return n.give(std::move(t));
  }
  if (n.has_attribute("value_ints")) return n.give(list_of(n.integers("value_ints")));
  if (n.has_attribute("value_float")) {
    const double value = n.number("value_float", 0);
    return n.give(make_tensor({n.precision(), {}}, std::span(&value, 1)));
  }
  if (n.has_attribute("value_floats")) {
    const std::vector<double> values = n.numbers("value_floats");
    return n.give_stored(make_tensor({DType::f64, {static_cast<std::int64_t>(values.size())}}, values));
  }
  throw error("has none of the attributes value, value_int, value_ints, value_float, value_floats");
}

void constant_of_shape(OnnxNode& n) {
  const onnx::TensorProto* value = n.tensor("value");
  const Tensor one = value ? read_small(n, *value) : make_tensor({n.precision(), {}}, std::vector<double>{0});
  if (one.size() != 1) throw error("attribute 'value' is {} but should be one number", to_text(one.type()));
  const List shape = n.integers_of(0);
  check_limits(shape, 0);
  n.give(n.main(
      "fill", {},
      {{"shape", shape}, {"value", to_doubles(one).front()}, {"dtype", std::string(name_of(one.dtype()))}}));
}

void shape_of(OnnxNode& n) {
  List shape = n.shape(0);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto clipped = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t end = clipped(n.integer("end", rank)), start = clipped(n.integer("start", 0));
  n.give(list_of(start < end ? List(shape.begin() + start, shape.begin() + end) : List{}));
}

void size_of_value(OnnxNode& n) {
  Tensor t({DType::i64, {}});
  t.as<std::int64_t>()[0] = element_count(n.shape(0));
  n.give(std::move(t));
}

void range(OnnxNode& n) {
  const DType dtype = n.type(0).dtype;
  const double start = n.number_of(0), limit = n.number_of(1), delta = n.number_of(2);
  const double count = std::max(std::ceil((limit - start) / delta), 0.0);
  if (!(count <= static_cast<double>(limits::constant_elements)))
    throw error("from {} to {} by {} has no number of elements up to {}", start, limit, delta,
                limits::constant_elements);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i)
    numbers.push_back(start + static_cast<double>(i) * delta);
  n.give(make_tensor({dtype, {static_cast<std::int64_t>(numbers.size())}}, numbers));
}

/// Per dim the positions of the elements that are not 0, in their order.
void non_zero(OnnxNode& n) {
  const auto x = n.constant(0);
  const std::vector<double> values = to_doubles(*x);
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0) found.push_back(static_cast<std::int64_t>(i));
  const std::size_t rank = x->shape().size();
  Tensor t({DType::i64, {static_cast<std::int64_t>(rank), static_cast<std::int64_t>(found.size())}});
  const Shape strides = strides_of(x->shape());
  auto at = t.as<std::int64_t>().begin();
  for (std::size_t d = 0; d < rank; ++d)
    for (std::int64_t i : found) *at++ = i / strides[d] % x->shape()[d];
  n.give(std::move(t));
}

/// x where column - row is at least k (upper) or at most k, else 0, by way of a mask.
void triangle(OnnxNode& n) {
  const bool is_upper = n.integer("upper", 1) != 0;
  const std::int64_t k = n.has(1) ? static_cast<std::int64_t>(n.number_of(1)) : 0;
  const Type& type = n.type(0);
  if (type.shape.size() < 2) throw error("of {} needs at least 2 dims", to_text(type));
  const std::int64_t rows = type.shape[type.shape.size() - 2], columns = type.shape.back();
  if (element_count(Shape{rows, columns}) > limits::constant_elements)
    throw error("of {} has more than {} elements", to_text(type), limits::constant_elements);
  Tensor mask({DType::boolean, {rows, columns}});
  const auto is_kept = mask.as<bool>();
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t above = i % columns - i / columns;
    is_kept[static_cast<std::size_t>(i)] = is_upper ? above >= k : above <= k;
  }
  const ValueId zero =
      n.call("fill", {}, {{"shape", Shape{}}, {"value", 0.0}, {"dtype", std::string(name_of(type.dtype))}});
  n.give(n.main("where", {n.constant(std::move(mask)), n.in(0), zero}));
}

/// 1 where column - row is k, else 0.
void identity_like(OnnxNode& n) {
  const Type& like = n.type(0);
  if (like.shape.size() != 2 || element_count(like.shape) > limits::constant_elements)
    throw error("of {} is not supported; it has 2 dims and at most {} elements", to_text(like),
                limits::constant_elements);
  const std::int64_t k = n.integer("k", 0);
  DType dtype = like.dtype;
  if (n.has_attribute("dtype")) dtype = dtype_of_onnx(static_cast<std::int32_t>(n.integer("dtype", 0)));
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < element_count(like.shape); ++i)
    numbers.push_back(i % like.shape[1] - i / like.shape[1] == k ? 1 : 0);
  n.give(make_tensor({is_floating(dtype) ? n.precision() : dtype, like.shape}, numbers));
}

}  // namespace

std::vector<Conversion> constants() {
  return {{"EyeLike", identity_like}, {"Constant", constant}, {"ConstantOfShape", constant_of_shape},
          {"Range", range},           {"NonZero", non_zero},  {"Shape", shape_of},
          {"Size", size_of_value},    {"Trilu", triangle}};
}

}  // namespace shardwright::onnx_operators
