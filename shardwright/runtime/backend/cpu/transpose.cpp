// Transposition by tiles of as many rows and columns as a line of memory has elements.

#include "shardwright/ops/transpose.h"

#include <algorithm>

#include "shardwright/base/vectorize.h"
#include "shardwright/runtime/backend/cpu/rows.h"

namespace shardwright::cpu {
namespace {

using ops::for_each_point, ops::for_each_row, ops::Pass, ops::Walk;

/// y[i, j] = x[j, i] for a tile; x steps by `x_step` along j, y by `y_step` along i. By way of a copy, so that each
/// line of memory is touched once: lines at a power of two from each other push one another out of the cache.
template <std::int64_t tile, class T>
void transpose_tile(const T* x, std::int64_t x_step, T* y, std::int64_t y_step, std::int64_t rows,
                    std::int64_t columns) {
  T copy[tile][tile];
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) copy[j][i] = x[j * x_step + i];
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) y[i * y_step + j] = copy[j][i];
}

/// The same for a matrix: tiles as wide as a line of memory, in panels of x that do not need too many pages.
template <class T>
void transpose_matrix(const T* x, std::int64_t x_step, T* y, std::int64_t y_step, std::int64_t rows,
                      std::int64_t columns) {
  constexpr std::int64_t tile = 64 / sizeof(T), panel = 256;
  for (std::int64_t start = 0; start < columns; start += panel)
    for (std::int64_t i = 0; i < rows; i += tile)
      for (std::int64_t j = start; j < std::min(start + panel, columns); j += tile) {
        const std::int64_t m = std::min(tile, rows - i), n = std::min(tile, columns - j);
        const T* const from = x + j * x_step + i;
        T* const to = y + i * y_step + j;
        if (m == tile && n == tile)
          transpose_tile<tile>(from, x_step, to, y_step, tile, tile);
        else
          transpose_tile<tile>(from, x_step, to, y_step, m, n);
      }
}

/// Moves elements of `sizeof(T)` bytes. Of y's loops the innermost steps by 1; the one in which x steps by 1 is
/// the same, or the two are a matrix to be transposed.
template <class T>
void move(const Walk<2>& walk, const T* x, T* y) {
  const auto [n, strides] = walk.row();
  if (strides[1] == 1)
    return for_each_row(walk, [&, n = n](const auto& at) { std::copy_n(x + at[1], n, y + at[0]); });
  Walk<2> around;
  Pass<2> column;
  for (const Pass<2>& pass : walk.around_row())
    if (pass.strides[1] == 1)
      column = pass;
    else
      around.surround(pass);
  for_each_point(around.passes(), [&, n = n, step = strides[1]](const auto& at) {
    transpose_matrix(x + at[1], step, y + at[0], column.strides[0], column.extent, n);
  });
}

}  // namespace

Rows transpose_rows(const FusedCall& fused) {
  const KernelCall& call = fused.call;
  if (fused.op.name != "transpose" || call.results[0].size() == 0) return {};
  const auto rows = [&]<class T>(std::type_identity<T>) {
    return all_at_once([walk = ops::transpose_walk(call), x = call.operands[0].data](std::byte* y) {
      vectorized([walk, from = reinterpret_cast<const T*>(x), to = reinterpret_cast<T*>(y)] {
        move(walk, from, to);
      });
    });
  };
  switch (size_of(call.results[0].dtype)) {
    case 1: return rows(std::type_identity<std::uint8_t>{});
    case 2: return rows(std::type_identity<std::uint16_t>{});
    case 4: return rows(std::type_identity<std::uint32_t>{});
    default: return rows(std::type_identity<std::uint64_t>{});
  }
}

}  // namespace shardwright::cpu
