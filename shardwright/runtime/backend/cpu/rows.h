// A result that can be made some rows at a time: what stands before a chain of point-wise calls.
#pragma once

#include <cstdint>
#include <functional>

#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/backend/cpu/scratch.h"

namespace shardwright::cpu {

/// The result seen as a matrix: its last dim is a row.
struct Rows {
  std::int64_t count = 0;
  std::int64_t panel = 0;  // how many to make at a time, so that they are still in the cache afterwards
  /// Writes rows [first, first + n) to `y`: all, or a panel that begins at a multiple of `panel`. Allocates nothing.
  std::function<void(std::int64_t first, std::int64_t n, std::byte* y)> make;

  explicit operator bool() const { return static_cast<bool>(make); }
};

/// Rows of a result that can only be made whole: `make(y)`.
template <class F>
Rows all_at_once(F make) {
  return {.count = 1, .panel = 1, .make = [make = std::move(make)](std::int64_t, std::int64_t, std::byte* y) {
            make(y);
          }};
}

/// Bytes of a panel: a quarter of a core's second-level cache, beside what the product packs and the chain reads.
constexpr std::int64_t panel_bytes = std::int64_t{1} << 19;

/// The product behind a matmul or outer_product; nothing if it is not for us (integer types, empty tensors).
Rows product_rows(const FusedCall& call, Workspace& workspace);

/// Attention or its gradient; nothing if the call is another.
Rows attention_rows(const FusedCall& call, Workspace& workspace);

/// A transposition; nothing if the call is another, or empty.
Rows transpose_rows(const FusedCall& call);

/// Point-wise calls that run block by block, behind `head` if there is one: then the first call is the head's. What
/// the head makes goes to `panels` if it has no place of its own.
PreparedKernel pointwise(std::span<const FusedCall> calls, Workspace& panels, Rows head = {});

}  // namespace shardwright::cpu
