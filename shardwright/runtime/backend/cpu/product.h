// The one computation behind matmul and outer_product: a batch of dense matrix products.
#pragma once

#include <cstdint>

#include "shardwright/runtime/backend/backend.h"

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
  std::byte* a = nullptr;
  std::byte* b = nullptr;
  std::byte* y = nullptr;
};

/// No dim may be 0.
PreparedKernel product_f32(const Product& p);
PreparedKernel product_f64(const Product& p);

/// No kernel if the call is not for them (16-bit and integer types, empty tensors).
PreparedKernel matmul(const KernelCall& call);
PreparedKernel outer_product(const KernelCall& call);

}  // namespace shardwright::cpu
