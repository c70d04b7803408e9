// Loops over several tensors at once whose elements stand at strides: broadcast, reduction, transposition.
//
// A walk merges neighbouring dims that every tensor passes in one stride, so that the common cases (equal
// shapes, a bias, a scalar) become one or two long rows, and kernels write only the loop over a row. It is built
// from the innermost dim outwards and holds its dims in place: making one allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "shardwright/base/error.h"
#include "shardwright/base/shape.h"
#include "shardwright/base/tensor.h"

namespace shardwright::ops {

/// One loop of a walk: how often, and how far each tensor moves with each turn, in elements.
template <std::size_t tensors>
struct Pass {
  std::int64_t extent = 1;
  std::array<std::int64_t, tensors> strides{};
};

template <std::size_t tensors>
class Walk {
 public:
  /// Puts a loop around the others, or makes the outermost longer if it goes on in its stride.
  void surround(const Pass<tensors>& outer) {
    if (outer.extent == 1) return;
    if (count_ > 0) {
      Pass<tensors>& last = passes_[count_ - 1];
      bool goes_on = true;
      for (std::size_t t = 0; t < tensors; ++t)
        goes_on = goes_on && outer.strides[t] == last.strides[t] * last.extent;
      if (goes_on) {
        last.extent *= outer.extent;
        return;
      }
    }
    if (count_ == passes_.size()) throw error("strides change more often than {} times", passes_.size());
    passes_[count_++] = outer;
  }

  /// Innermost first; none if there is one point only.
  std::span<const Pass<tensors>> passes() const { return {passes_.data(), count_}; }

  /// The innermost loop.
  Pass<tensors> row() const {
    if (count_ > 0) return passes_[0];
    Pass<tensors> one;
    one.strides.fill(1);
    return one;
  }

  /// What is around the innermost loop.
  std::span<const Pass<tensors>> around_row() const { return passes().subspan(count_ > 0 ? 1 : 0); }

 private:
  std::array<Pass<tensors>, 16> passes_;
  std::size_t count_ = 0;
};

/// Calls `f(offsets)` at every point of `passes`: where each tensor stands. One call if there are none.
template <std::size_t tensors, class F>
void for_each_point(std::span<const Pass<tensors>> passes, F f) {
  for (const Pass<tensors>& pass : passes)
    if (pass.extent == 0) return;
  std::array<std::int64_t, 16> index{};
  std::array<std::int64_t, tensors> offsets{};
  for (;;) {
    f(offsets);
    std::size_t d = 0;
    for (; d < passes.size(); ++d) {
      for (std::size_t t = 0; t < tensors; ++t) offsets[t] += passes[d].strides[t];
      if (++index[d] < passes[d].extent) break;
      for (std::size_t t = 0; t < tensors; ++t) offsets[t] -= passes[d].strides[t] * passes[d].extent;
      index[d] = 0;
    }
    if (d == passes.size()) return;
  }
}

/// Calls `f(offsets)` for every row.
template <std::size_t tensors, class F>
void for_each_row(const Walk<tensors>& walk, F f) {
  if (walk.row().extent > 0) for_each_point(walk.around_row(), f);
}

/// A walk over a tensor of shape `to` (tensor 0) and one of shape `from`, right-aligned, which is broadcast to it.
inline Walk<2> broadcast_walk(std::span<const std::int64_t> from, std::span<const std::int64_t> to) {
  Walk<2> walk;
  std::int64_t to_stride = 1, from_stride = 1;
  for (std::size_t d = 1; d <= to.size(); ++d) {
    const std::int64_t extent = to[to.size() - d];
    const std::int64_t own = d <= from.size() ? from[from.size() - d] : 1;
    walk.surround({extent, {to_stride, own == 1 ? 0 : from_stride}});
    to_stride *= extent;
    from_stride *= own;
  }
  return walk;
}

/// y = x along a walk over y and x, in whose rows x stands still or goes on.
inline void copy_stretched(const Walk<2>& walk, const TensorView& x, const TensorView& y) {
  const auto [n, strides] = walk.row();
  visit(y.dtype, [&, n = n, step = strides[1]]<class T>(std::type_identity<T>) {
    T* const to = y.as<T>().data();
    const T* const from = x.as<T>().data();
    for_each_row(walk, [&](const auto& at) {
      if (step == 0)
        std::fill_n(to + at[0], n, from[at[1]]);
      else
        std::copy_n(from + at[1], n, to + at[0]);
    });
  });
}

}  // namespace shardwright::ops
