// The order of a sequence in which ranks that hold a part of it each see as much of what is before them as the others do.
//
// Of `blocks` (an even number) equal blocks, the first rank holds the first and the last, the second rank the second and the
// last but one, and so on:  0 7 | 1 6 | 2 5 | 3 4.  0 blocks: the sequence stands as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shardwright/base/error.h"
#include "shardwright/base/tensor.h"

namespace shardwright::ops {

/// Where in the sequence of `size` elements the one stands that is the `i`-th in this order.
inline std::int64_t place_in_sequence(std::int64_t i, std::int64_t size, std::int64_t blocks) {
  if (blocks == 0) return i;
  const std::int64_t block = size / blocks, pair = i / (2 * block), inside = i % (2 * block);
  return inside < block ? pair * block + inside : (blocks - 1 - pair) * block + inside - block;
}

/// Throws: Error unless `size` elements can stand so.
inline void check_order(std::int64_t blocks, std::int64_t size) {
  if (blocks < 0 || blocks % 2) throw error("order={}: should be an even number of blocks, or 0", blocks);
  if (blocks > 0 && size % blocks)
    throw error("order={}: does not divide the {} elements of the sequence", blocks, size);
}

/// Brings the sequence along dim `dim` of `from` into the order of `blocks`, or with `is_inverse` back.
inline void bring_into_order(std::byte* to, const std::byte* from, DType dtype, const Shape& shape,
                             std::size_t dim, std::int64_t blocks, bool is_inverse) {
  const std::int64_t size = shape[dim];
  if (blocks > 0 && size % blocks) throw error("order={}: does not divide the {} here", blocks, size);
  std::int64_t row = static_cast<std::int64_t>(size_of(dtype)), count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) (d < dim ? count : row) *= d == dim ? 1 : shape[d];
  if (row == 0) return;  // of nothing
  for (std::int64_t n = 0; n < count; ++n)
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t place = place_in_sequence(i, size, blocks);
      std::memcpy(to + (n * size + (is_inverse ? place : i)) * row,
                  from + (n * size + (is_inverse ? i : place)) * row, static_cast<std::size_t>(row));
    }
}

/// In Python, for PyTorch and JAX: where elements from `first` on stand; `library` is torch or jnp.
inline constexpr const char* places_in_python = R"(
def places_in_sequence(library, first, count, size, blocks):
    i = library.arange(first, first + count)
    if blocks == 0:
        return i
    block = size // blocks
    pair, inside = i // (2 * block), i % (2 * block)
    return library.where(inside < block, pair * block + inside, (blocks - 1 - pair) * block + inside - block)
)";

}  // namespace shardwright::ops
