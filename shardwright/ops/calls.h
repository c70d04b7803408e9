// The calls that code outside ops/ and several operators' gradients add to a graph, under names of their own:
// with these, no other folder names an operator.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardwright/graph/builder.h"

namespace shardwright {

/// A scalar of type `dtype`.
inline ValueId constant(Builder& builder, DType dtype, double value) {
  return builder.call("fill", {},
                      {{"shape", Shape{}}, {"value", value}, {"dtype", std::string(name_of(dtype))}});
}

/// The element-wise sum of values of one type.
inline ValueId sum_of(Builder& builder, std::vector<ValueId> addends) {
  return builder.call("sum", std::move(addends));
}

/// `x + by`.
inline ValueId shifted(Builder& builder, ValueId x, double by) {
  return builder.call("shift", {x}, {{"value", by}});
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
