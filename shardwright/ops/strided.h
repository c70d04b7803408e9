// Loops over several tensors at once whose elements stand at strides: broadcast, reduction, transposition.
//
// A walk merges neighbouring dims that every tensor passes in one stride, so that the common cases (equal
// shapes, a bias, a scalar) become one or two long rows, and kernels write only the loop over a row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardwright/base/shape.h"

namespace shardwright::ops {

struct Walk {
  Shape extent;                // merged, outermost first; the last is the length of a row
  std::vector<Shape> strides;  // per tensor, in elements

  std::int64_t row_length() const { return extent.back(); }
  /// Stride of tensor `t` along a row.
  std::int64_t step(std::size_t t) const { return strides[t].back(); }
};

/// A walk over all points of `extent`; `strides` says per tensor how far one step along each dim goes.
inline Walk walk_over(const Shape& extent, std::span<const Shape> strides) {
  Walk walk;
  walk.strides.resize(strides.size());
  for (std::size_t d = 0; d < extent.size(); ++d) {
    if (extent[d] == 1) continue;
    bool merges = !walk.extent.empty();
    for (std::size_t t = 0; t < strides.size() && merges; ++t)
      merges = walk.strides[t].back() == strides[t][d] * extent[d];
    if (merges)
      walk.extent.back() *= extent[d];
    else
      walk.extent.push_back(extent[d]);
    for (std::size_t t = 0; t < strides.size(); ++t) {
      if (merges) walk.strides[t].pop_back();
      walk.strides[t].push_back(strides[t][d]);
    }
  }
  if (walk.extent.empty()) {
    walk.extent = {1};
    for (Shape& s : walk.strides) s = {1};
  }
  return walk;
}

/// Calls `f(offsets)` for every row: where it starts in each tensor.
template <class F>
void for_each_row(const Walk& walk, F f) {
  if (element_count(walk.extent) == 0) return;
  const std::size_t outer = walk.extent.size() - 1;
  const std::size_t tensors = walk.strides.size();
  Shape index(outer, 0);
  Shape offset(tensors, 0);
  for (;;) {
    f(std::as_const(offset));
    std::size_t d = outer;
    while (d > 0) {
      --d;
      for (std::size_t t = 0; t < tensors; ++t) offset[t] += walk.strides[t][d];
      if (++index[d] < walk.extent[d]) break;
      for (std::size_t t = 0; t < tensors; ++t) offset[t] -= walk.strides[t][d] * walk.extent[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (outer == 0) return;
  }
}

/// Strides of a tensor of shape `from` along the dims of `to`, right-aligned: 0 where it is broadcast.
inline Shape broadcast_strides(const Shape& from, const Shape& to) {
  const Shape own = strides_of(from);
  Shape out(to.size(), 0);
  const std::size_t extra = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d)
    if (from[d] != 1) out[extra + d] = own[d];
  return out;
}

}  // namespace shardwright::ops
