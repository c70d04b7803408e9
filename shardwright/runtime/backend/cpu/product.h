// The one computation behind matmul and outer_product: a batch of dense matrix products.
#pragma once

#include <cstdint>
#include <functional>

#include "shardwright/base/dtype.h"
#include "shardwright/runtime/backend/cpu/rows.h"

namespace shardwright::cpu {

/// y[q, m, n] = sum over k of a[q, m, k] * b[q, k, n] for q < batch.
/// Transposed operands stand as [q, k, m] and [q, n, k]; a shared b has no q.
struct Product {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t stored_m = 0;  // rows of a matrix of which a transposed a is a part; 0: m
  bool transpose_a = false;
  bool transpose_b = false;
  bool shares_b = false;
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;

  /// Rows of all matrices that make a panel of elements of `bytes` bytes.
  std::int64_t panel_rows(std::int64_t bytes) const;
};

/// No dim may be 0.
Rows product_f32(const Product& p, Workspace& workspace);
Rows product_f64(const Product& p);
/// bf16 by oneDNN in bf16 where that is fast; else, and f16, through f32 in blocks. Sums are f32.
Rows product_short(const Product& p, DType dtype, Workspace& workspace);

/// One matrix product (`p.batch` is 1) now, for kernels that know their operands only when they run. Memory for
/// packing: of f64 `packing_bytes_f64` at `packing`.
void multiply_f32(const Product& p, std::byte* y);
void multiply_f64(const Product& p, std::byte* y, std::byte* packing);
extern const std::int64_t packing_bytes_f64;

/// The same for one size and several places: `run(a, b, y)`.
using Multiply = std::function<void(const std::byte* a, const std::byte* b, std::byte* y)>;
Multiply multiply_short(const Product& p, DType dtype, Workspace& workspace);

}  // namespace shardwright::cpu
