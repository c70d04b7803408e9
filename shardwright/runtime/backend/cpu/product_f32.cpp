// Products in f32 by oneDNN: dnnl_sgemm for one matrix, the matmul primitive for a batch of small ones.
//
// For one matrix dnnl_sgemm is as fast as the primitive or faster (GF/s, 1 thread, 32x784x512: NN 163 / 117,
// NT 128 / 114, TN 156 / 113; 1024^3: 168 / 157), and it calls operator new never. A batch of 16x16 matrices is four
// times faster in one primitive than in many calls. Both take packing memory from malloc or from us, never more than
// 3 MiB.

#include <oneapi/dnnl/dnnl.hpp>

#include "shardwright/runtime/backend/cpu/product.h"
#include "shardwright/runtime/backend/cpu/product_primitive.h"

namespace shardwright::cpu {
namespace {

const float* floats(const std::byte* data) { return reinterpret_cast<const float*>(data); }

/// Rows [first, first + n) of one matrix.
void multiply_rows(const Product& p, std::int64_t first, std::int64_t n, std::byte* y) {
  const float* const a = floats(p.a) + (p.transpose_a ? first : first * p.k);
  const auto status = dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', n, p.n, p.k, 1.0F, a,
                                 p.transpose_a ? p.m : p.k, floats(p.b), p.transpose_b ? p.k : p.n, 0.0F,
                                 reinterpret_cast<float*>(y), p.n);
  require(status == dnnl_success, "dnnl_sgemm says {}", static_cast<int>(status));
}

Rows one(const Product& p) {
  const auto make = [p](std::int64_t first, std::int64_t n, std::byte* y) { multiply_rows(p, first, n, y); };
  return {.count = p.m, .panel = p.panel_rows(sizeof(float)), .make = make};
}

}  // namespace

void multiply_f32(const Product& p, std::byte* y) { multiply_rows(p, 0, p.m, y); }

Rows product_f32(const Product& p, Workspace& workspace) {
  return p.batch == 1 ? one(p) : batch_of_products(p, DType::f32, workspace);
}

}  // namespace shardwright::cpu
