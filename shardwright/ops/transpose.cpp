// Dims in another order: dim d of the result is dim dims[d] of the operand.

#include "shardwright/ops/transpose.h"

#include <algorithm>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// Throws: Error unless `dims` names every dim of the operand once.
std::vector<std::size_t> order_of(const Call& call) {
  check_count(call, 1);
  const Shape& shape = call.operands[0].shape;
  const std::vector<std::int64_t> dims = call.attributes.integers("dims");
  std::vector<bool> seen(shape.size(), false);
  std::vector<std::size_t> order;
  for (std::int64_t d : dims) {
    order.push_back(dim_of(d, shape));
    seen[order.back()] = true;
  }
  if (dims.size() != shape.size() || std::find(seen.begin(), seen.end(), false) != seen.end())
    throw error("dims={} should name each of the {} dims of {} once", to_text(dims), shape.size(),
                to_text(call.operands[0]));
  return order;
}

std::string rule(const Call& call) {
  std::vector<std::string> to;
  for (std::size_t d : order_of(call)) to.push_back(loop_name(d));
  return fmt::format("{} -> {}", tensor_text(to.size()), tensor_text(to));
}

std::vector<ValueId> gradient(Gradient& g) {
  const Shape& shape = g.type(g.in(0)).shape;
  const std::vector<std::int64_t> dims = g.attributes().integers("dims");
  std::vector<std::int64_t> inverse(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d)
    inverse[dim_of(dims[d], shape)] = static_cast<std::int64_t>(d);
  return {g.call("transpose", {g.dy()}, {{"dims", inverse}})};
}

template <class T>
void move(const Walk<2>& walk, const T* x, T* y) {
  const auto [n, strides] = walk.row();
  for_each_row(walk, [&, n = n, step = strides[1]](const auto& at) {
    for (std::int64_t i = 0; i < n; ++i) y[at[0] + i] = x[at[1] + i * step];
  });
}

void kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  if (y.size() == 0) return;
  visit(y.dtype, [&]<class T>(std::type_identity<T>) {
    move(transpose_walk(call), x.as<T>().data(), y.as<T>().data());
  });
}

}  // namespace

Walk<2> transpose_walk(const KernelCall& call) {
  const Shape& shape = call.operands[0].shape;
  const auto dims = dims_in(call.attributes);
  Walk<2> walk;
  std::int64_t stride = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    const std::size_t from = dim_of(dims[d], shape);
    const std::int64_t inner = element_count(std::span(shape).subspan(from + 1));
    walk.surround({shape[from], {stride, inner}});
    stride *= shape[from];
  }
  return walk;
}

std::vector<OpDef> transpose() {
  return {{.name = "transpose",
           .doc = "dim d of y is dim dims[d] of x",
           .attributes = {"dims"},
           .rule_for = rule,
           .linear = "{0}",
           .gradient = gradient,
           .kernel = kernel,
           .samples = {"f32[4,6] (dims=[1,0])", "f32[2,6,4] (dims=[1,2,0])", "f32[2,3,4,6] (dims=[0,2,1,3])",
                       "f32[2,6,4] (dims=[0,-1,1])"},
           .torch = {.line = "{0}.permute({dims})", .may_share = true},
           .jax = {.line = "{0}.transpose({dims})"}}};
}

}  // namespace shardwright::ops
