// matmul and outer_product as batches of dense products.

#include <algorithm>
#include <memory>

#include "shardwright/ops/product_batch.h"
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

/// An operand is used for several matrices of the result, other than one b for all.
bool stretches(const KernelCall& call) {
  const Shape &a = call.operands[0].shape, &b = call.operands[1].shape;
  return a.size() < call.results[0].shape.size() ||
         (b.size() > 2 && !std::equal(a.begin(), a.end() - 2, b.begin(), b.end() - 2));
}

/// One product of the size of `p`, wherever its operands are.
Multiply multiply_at(const Product& p, DType dtype, Workspace& workspace) {
  if (dtype == DType::f16 || dtype == DType::bf16) return multiply_short(p, dtype, workspace);
  const bool is_double = dtype == DType::f64;
  const auto packing = std::make_shared<Scratch>(static_cast<std::size_t>(is_double ? packing_bytes_f64 : 0));
  return [=](const std::byte* a, const std::byte* b, std::byte* y) {
    Product one = p;
    one.a = a;
    one.b = b;
    is_double ? multiply_f64(one, y, packing->data()) : multiply_f32(one, y);
  };
}

/// One product after the other, `p` being all of them but their places.
Rows stretched(Product p, const KernelCall& call, Workspace& workspace) {
  const DType dtype = call.results[0].dtype;
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  p.batch = 1;
  const auto walk = ops::product_batch(call.results[0].shape, call.operands[0].shape, call.operands[1].shape);
  return all_at_once([=, multiply = multiply_at(p, dtype, workspace)](std::byte* y) {
    ops::for_each_point(walk.passes(), [&](const auto& at) {
      multiply(p.a + at[1] * p.m * p.k * bytes, p.b + at[2] * p.k * p.n * bytes,
               y + at[0] * p.m * p.n * bytes);
    });
  });
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

Rows product_rows(const FusedCall& fused, Workspace& workspace) {
  const KernelCall& call = fused.call;
  if (fused.op.name != "matmul" && fused.op.name != "outer_product") return {};
  Product p = fused.op.name == "matmul" ? matmul(call) : outer_product(call);
  if (p.batch == 0 || p.m == 0 || p.n == 0 || p.k == 0) return {};
  p.a = call.operands[0].data;
  p.b = call.operands[1].data;
  const DType dtype = call.results[0].dtype;
  if (!is_floating(dtype)) return {};
  if (fused.op.name == "matmul" && stretches(call)) return stretched(p, call, workspace);
  switch (dtype) {
    case DType::f32: return product_f32(p, workspace);
    case DType::f64: return product_f64(p);
    default: return product_short(p, dtype, workspace);
  }
}

}  // namespace shardwright::cpu
