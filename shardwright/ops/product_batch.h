// The batch of a product of matrices: its dims before the last two, which broadcast as in numpy.
#pragma once

#include "shardwright/ops/strided.h"

namespace shardwright::ops {

/// A walk over the matrices of y (0), a (1) and b (2), counted in matrices. An operand that lacks a dim of the batch,
/// or has a 1 there, stands still along it.
inline Walk<3> product_batch(const Shape& y, const Shape& a, const Shape& b) {
  Walk<3> walk;
  std::array<std::int64_t, 3> strides{1, 1, 1};
  for (std::size_t d = 3; d <= y.size(); ++d) {
    const auto own = [d](const Shape& shape) { return d <= shape.size() ? shape[shape.size() - d] : 1; };
    walk.surround(
        {y[y.size() - d], {strides[0], own(a) == 1 ? 0 : strides[1], own(b) == 1 ? 0 : strides[2]}});
    strides = {strides[0] * own(y), strides[1] * own(a), strides[2] * own(b)};
  }
  return walk;
}

}  // namespace shardwright::ops
