// The calls that code outside ops/ and several operators' gradients add to a graph, under names of their own:
// with these, no other folder names an operator.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/graph/builder.h"

namespace shardwright {

/// A scalar of type `dtype`; `builder` is a Builder or a Gradient.
inline ValueId constant(auto& builder, DType dtype, double value) {
  return builder.call("fill", {},
                      {{"shape", Shape{}}, {"value", value}, {"dtype", std::string(name_of(dtype))}});
}

/// The same elements in another memory format, which passes choose.
inline const OpDef& reformat_op() { return find_op("reformat"); }

/// Dim `dim` of x in the order in which ranks share a sequence evenly (ops/sequence_order.h), or back.
inline ValueId reordered(Builder& builder, ValueId x, std::size_t dim, std::int64_t order, bool is_inverse) {
  Attributes how{{"dim", static_cast<std::int64_t>(dim)}, {"order", order}};
  if (is_inverse) how.set("inverse", true);
  return builder.call("reorder", {x}, std::move(how));
}

/// `x`, whose dim `dim` is `parts` equal parts, in `pieces` pieces: each has of all parts the same of their equal runs, one part's
/// behind the other's.
inline std::vector<ValueId> in_pieces(Builder& builder, ValueId x, std::size_t dim, std::int64_t parts,
                                      std::int64_t pieces) {
  Shape shape = builder.type(x).shape;
  const std::int64_t run = shape[dim] / (parts * pieces);
  const auto at_dim = shape.begin() + static_cast<std::ptrdiff_t>(dim);
  Shape in_runs = shape;
  shape[dim] = parts * run;
  in_runs[dim] = parts;
  in_runs.insert(in_runs.begin() + (at_dim - shape.begin()) + 1, {pieces, run});
  const ValueId all = builder.call("reshape", {x}, {{"shape", in_runs}});
  std::vector<ValueId> out =
      builder.call_all(find_op("split"), {all},
                       {{"dim", static_cast<std::int64_t>(dim) + 1},
                        {"sizes", std::vector<std::int64_t>(static_cast<std::size_t>(pieces), 1)}});
  for (ValueId& piece : out) piece = builder.call("reshape", {piece}, {{"shape", shape}});
  return out;
}
/// What such pieces are of.
inline ValueId of_pieces(Builder& builder, std::vector<ValueId> pieces, std::size_t dim, std::int64_t parts) {
  Shape shape = builder.type(pieces.front()).shape;
  Shape in_runs = shape;
  in_runs[dim] = parts;
  in_runs.insert(in_runs.begin() + static_cast<std::ptrdiff_t>(dim) + 1, {1, shape[dim] / parts});
  shape[dim] *= static_cast<std::int64_t>(pieces.size());
  for (ValueId& piece : pieces) piece = builder.call("reshape", {piece}, {{"shape", in_runs}});
  const ValueId all =
      builder.call("concat", std::move(pieces), {{"dim", static_cast<std::int64_t>(dim) + 1}});
  return builder.call("reshape", {all}, {{"shape", shape}});
}

inline const OpDef& sum_op() { return find_op("sum"); }
/// The element-wise sum of values of one type.
inline ValueId sum_of(Builder& builder, std::vector<ValueId> addends) {
  return builder.call("sum", std::move(addends));
}

inline const OpDef& cast_op() { return find_op("cast"); }
/// The same elements as `dtype`; `builder` is a Builder or a Gradient.
inline ValueId cast_to(auto& builder, ValueId x, DType dtype) {
  if (builder.type(x).dtype == dtype) return x;
  return builder.call("cast", {x}, {{"to", std::string(name_of(dtype))}});
}

/// The same under a name.
inline ValueId cast_to(Builder& builder, ValueId x, DType dtype, std::string_view name) {
  return builder.call("cast", {x}, {{"to", std::string(name_of(dtype))}}, name);
}

/// `x + by`.
inline ValueId shifted(Builder& builder, ValueId x, double by, std::string_view name = "") {
  return builder.call("shift", {x}, {{"value", by}}, name);
}

/// An operator with this attribute that reads the count of steps is told by it of how many micro-batches a step is; then
/// what it reads is the count of micro-batches (autodiff/accumulate.h).
constexpr std::string_view micro_batches_attribute = "micro_batches";

/// What the loss of softmax(logits) against one label per row is made of: the sum of e^(x - largest x), and x[label] -
/// largest x. They are steps that reduce over the classes: these may be split like any other dim, and no rank ever
/// holds a row that it has only part of. `is_full`: they are of f32 at least, whatever the logits are.
/// Shapes: logits [..., classes], labels [...] -> [2, ...]
inline ValueId cross_entropy_terms(Builder& builder, ValueId logits, ValueId labels, bool is_full,
                                   const std::string& name) {
  const std::vector<std::int64_t> classes{-1};
  const ValueId largest = builder.call("reduce_max", {logits}, {{"dims", classes}}, name + ".largest");
  const ValueId shift = builder.call("stop_gradient", {largest}, {}, name + ".shift");
  Attributes attributes;
  if (is_full) attributes.set("full", true);
  return builder.call("cross_entropy_terms", {logits, labels, shift}, std::move(attributes), name);
}

/// The loss of these terms. The node called `name` is the one that reads logits and labels; the loss is `name.loss`.
/// Shapes: logits [..., classes], labels [...] -> [...]
inline ValueId cross_entropy(Builder& builder, ValueId logits, ValueId labels, bool is_full,
                             const std::string& name) {
  const ValueId terms = cross_entropy_terms(builder, logits, labels, is_full, name);
  return builder.call("cross_entropy_of_terms", {terms}, {}, name + ".loss");
}

/// What a batch norm of training reads and keeps; `mean` and `variance` are states, [channels].
struct BatchNorm {
  ValueId gamma, beta, mean, variance;
  double epsilon = 1e-5;
  double momentum = 0.1;
};

/// Batch norm over all dims of x but dim 1 by the statistics of the whole batch, however it is split. After the step
/// the running mean and variance have moved towards them.
inline ValueId batch_norm(Builder& builder, ValueId x, const BatchNorm& norm, std::string_view name = "") {
  const Shape shape = builder.type(x).shape;
  const ValueId moments = builder.call("batch_moments", {x});
  const ValueId y =
      builder.call("batch_norm", {x, norm.gamma, norm.beta, moments}, {{"epsilon", norm.epsilon}}, name);
  const std::vector<ValueId> moved = builder.call_all(
      find_op("running_moments"), {norm.mean, norm.variance, moments},
      {{"count", static_cast<double>(element_count(shape) / shape[1])}, {"momentum", norm.momentum}});
  builder.graph().updates.push_back({norm.mean, moved[0]});
  builder.graph().updates.push_back({norm.variance, moved[1]});
  return y;
}

/// The sum of `gradient` over the dims along which an operand of shape `shape` was broadcast.
inline ValueId unbroadcast(Gradient& g, ValueId gradient, Shape shape) {
  const Shape from = g.type(gradient).shape;
  if (from == shape) return gradient;
  const std::size_t extra = from.size() - shape.size();
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < from.size(); ++d)
    if (d < extra || (shape[d - extra] == 1 && from[d] != 1)) dims.push_back(static_cast<std::int64_t>(d));
  const bool keeps_ones = dims.size() > extra;
  const ValueId sum = g.call("reduce_sum", {gradient}, {{"dims", dims}});
  if (!keeps_ones) return sum;
  return g.call("reshape", {sum}, {{"shape", std::move(shape)}});
}

}  // namespace shardwright
