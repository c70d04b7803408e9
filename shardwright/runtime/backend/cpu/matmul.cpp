// matmul and outer_product as batches of dense products.

#include <algorithm>

#include "shardwright/runtime/backend/cpu/product.h"

namespace shardwright::cpu {
namespace {

Product matmul(const KernelCall& call) {
  const Shape& a = call.operands[0].shape;
  const Shape& b = call.operands[1].shape;
  Product p{.transpose_a = call.attributes.flag("transpose_a"),
            .transpose_b = call.attributes.flag("transpose_b")};
  p.m = a[a.size() - (p.transpose_a ? 1 : 2)];
  p.k = a[a.size() - (p.transpose_a ? 2 : 1)];
  p.n = b[b.size() - (p.transpose_b ? 2 : 1)];
  for (std::size_t d = 0; d + 2 < a.size(); ++d) p.batch *= a[d];
  p.shares_b = b.size() == 2;
  if (p.shares_b && !p.transpose_a) {  // rows of all batches are one matrix
    p.m *= p.batch;
    p.batch = 1;
  }
  return p;
}

Product outer_product(const KernelCall& call) {
  const Shape& a = call.operands[0].shape;
  Product p{.m = a.back(), .n = call.operands[1].shape.back(), .k = 1, .transpose_a = true};
  for (std::size_t d = 0; d + 1 < a.size(); ++d) p.k *= a[d];
  return p;
}

}  // namespace

std::int64_t Product::panel_rows(std::int64_t bytes) const {
  constexpr std::int64_t fewest = 32, tile = 16;  // fewer rows leave the product's registers idle
  return std::max(fewest, panel_bytes / (n * bytes) / tile * tile);
}

Rows product_rows(const FusedCall& fused) {
  const KernelCall& call = fused.call;
  if (fused.op.name != "matmul" && fused.op.name != "outer_product") return {};
  Product p = fused.op.name == "matmul" ? matmul(call) : outer_product(call);
  if (p.batch == 0 || p.m == 0 || p.n == 0 || p.k == 0) return {};
  p.a = call.operands[0].data;
  p.b = call.operands[1].data;
  switch (call.results[0].dtype) {
    case DType::f32: return product_f32(p);
    case DType::f64: return product_f64(p);
    default: return {};
  }
}

}  // namespace shardwright::cpu
