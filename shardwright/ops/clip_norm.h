// The calls that clip gradients by their global norm, as PyTorch's clip_grad_norm_ does:
//
//   norm = sqrt(sum of all squares);  g' = g min(1, most / (norm + 1e-6))
//
// One sum over all gradients, so that one all_reduce of a scalar serves them all however they lie.
#pragma once

#include <algorithm>
#include <vector>

#include "shardwright/ops/calls.h"

namespace shardwright {

inline ValueId squares_of(Builder& builder, ValueId gradient) {
  return builder.call("sum_of_squares", {gradient});
}

/// The sum of these squares of gradients, a scalar.
inline ValueId sum_of_squares(Builder& builder, std::vector<ValueId> squares) {
  const bool is_wide = std::any_of(squares.begin(), squares.end(),
                                   [&](ValueId s) { return builder.type(s).dtype == DType::f64; });
  for (ValueId& s : squares) s = cast_to(builder, s, is_wide ? DType::f64 : DType::f32);
  return sum_of(builder, std::move(squares));
}

/// The norm that these squares are of.
inline ValueId norm_of(Builder& builder, ValueId squares) {
  return builder.call("sqrt", {squares}, {}, "gradients.norm");
}

inline ValueId inverse_of(Builder& builder, ValueId x) { return builder.call("reciprocal", {x}); }

/// What gradients are scaled with, so that their norm all together is at most `most`.
inline ValueId clip_factor(Builder& builder, ValueId norm, double most) {
  const ValueId inverse = inverse_of(builder, shifted(builder, norm, 1e-6));
  const ValueId ratio = builder.call("scale", {inverse}, {{"factor", most}});
  return builder.call("clip", {ratio}, {{"max", 1.0}}, "gradients.factor");
}

/// `x` times a scalar, which a short type may not hold (the inverse of a loss scale): then the product is made in the
/// scalar's.
inline ValueId scaled(Builder& builder, ValueId x, ValueId factor) {
  const DType dtype = builder.type(x).dtype;
  if (size_of(dtype) >= size_of(builder.type(factor).dtype))
    return builder.call("mul", {x, cast_to(builder, factor, dtype)});
  return cast_to(builder, builder.call("mul", {cast_to(builder, x, builder.type(factor).dtype), factor}),
                 dtype);
}

}  // namespace shardwright
