// The one computation behind matmul and outer_product: a batch of dense matrix products.
#pragma once

#include <cstdint>

#include "shardwright/runtime/backend/cpu/rows.h"

namespace shardwright::cpu {

/// y[q, m, n] = sum over k of a[q, m, k] * b[q, k, n] for q < batch.
/// Transposed operands stand as [q, k, m] and [q, n, k]; a shared b has no q.
struct Product {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool shares_b = false;
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;

  /// Rows of all matrices that make a panel of elements of `bytes` bytes.
  std::int64_t panel_rows(std::int64_t bytes) const;
};

/// No dim may be 0.
Rows product_f32(const Product& p);
Rows product_f64(const Product& p);

/// One matrix product (`p.batch` is 1) now, for kernels that know their operands only when they run. Memory for
/// packing: of f64 `packing_bytes_f64` at `packing`.
void multiply_f32(const Product& p, std::byte* y);
void multiply_f64(const Product& p, std::byte* y, std::byte* packing);
extern const std::int64_t packing_bytes_f64;

}  // namespace shardwright::cpu
