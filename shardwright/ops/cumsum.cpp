// Running sums along a dim: y[i] = x[0] + ... + x[i], or up to x[i - 1] if exclusive; from the end if reversed.
// Sums are kept in double, those of integers in i64.

#include <algorithm>
#include <array>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"
#include "shardwright/ops/wrapping.h"

namespace shardwright::ops {
namespace {

std::size_t dim_in(const Attributes& attributes, const Shape& shape) {
  return dim_of(attributes.integer("dim", -1), shape);
}

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  check_number(call.operands[0].dtype);
  dim_in(call.attributes, call.operands[0].shape);
  call.attributes.flag("exclusive");
  call.attributes.flag("reverse");
  return {call.operands[0]};
}

std::string rule(const Call& call) {
  check_count(call, 1);
  const Shape& shape = call.operands[0].shape;
  const std::size_t dim = dim_in(call.attributes, shape);
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < shape.size(); ++d) dims.push_back(loop_name(d, d == dim ? "^" : ""));
  return fmt::format("{0} -> {0}", tensor_text(dims));
}

/// x[i] adds to every y[j] with j >= i: the running sum the other way.
std::vector<ValueId> gradient(Gradient& g) {
  Attributes other_way = g.attributes();
  other_way.set("reverse", !other_way.flag("reverse"));
  return {g.call("cumsum", {g.dy()}, std::move(other_way))};
}

/// Sums `width` neighbouring lines, whose elements lie `step` apart (from the end if it is negative).
template <class T>
void sum_lines(const T* x, T* y, std::int64_t length, std::int64_t step, std::int64_t width, bool exclusive) {
  using C = Compute<T>;
  constexpr std::int64_t strip = 128;
  for (std::int64_t start = 0; start < width; start += strip) {
    std::array<Accumulator<T>, strip> sums{};
    auto* const sum = sums.data();
    const std::int64_t n = std::min(strip, width - start);
    for (std::int64_t i = 0; i < length; ++i) {
      const T* const from = x + i * step + start;
      T* const to = y + i * step + start;
      for (std::int64_t c = 0; c < n; ++c) {
        const auto before = sum[c];
        sum[c] = wrapping_sum(before, static_cast<Accumulator<T>>(static_cast<C>(from[c])));
        to[c] = static_cast<T>(static_cast<C>(exclusive ? before : sum[c]));
      }
    }
  }
}

void kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  const Lines lines(x.shape, dim_in(call.attributes, x.shape));
  const bool exclusive = call.attributes.flag("exclusive"), reverse = call.attributes.flag("reverse");
  visit_number(x.dtype, [&]<class T>(std::type_identity<T>) {
    vectorized([=, from = x.as<T>().data(), to = y.as<T>().data()] {
      const std::int64_t last = reverse ? (lines.length - 1) * lines.inner : 0;
      for (std::int64_t o = 0; o < lines.outer; ++o) {
        const std::int64_t at = o * lines.length * lines.inner + last;
        sum_lines(from + at, to + at, lines.length, reverse ? -lines.inner : lines.inner, lines.inner,
                  exclusive);
      }
    });
  });
}

}  // namespace

std::vector<OpDef> cumsum() {
  return {{.name = "cumsum",
           .doc =
               "y = running sum of x along `dim`; exclusive leaves out the element itself, reverse starts at "
               "the end",
           .attributes = {"dim", "exclusive", "reverse"},
           .defaults = {{"dim", std::int64_t{-1}}, {"exclusive", false}, {"reverse", false}},
           .rule_for = rule,
           .linear = "{0}",
           .infer = infer,
           .gradient = gradient,
           .kernel = kernel,
           .samples = {"f32[4,6]", "f32[6,4] (dim=0, reverse=true)", "f32[2,6,4] (dim=1, exclusive=true)",
                       "f32[4,6] (exclusive=true, reverse=true)", "i64[4,6] (dim=-2)"},
           .overwrites = {0},
           .torch = {.line = "cumsum({0}, {dim}, {exclusive}, {reverse})", .functions = R"(
def cumsum(x, dim, exclusive, reverse):
    v = x.flip(dim) if reverse else x
    y = (wide(v) if v.is_floating_point() else v).cumsum(dim)
    if exclusive:
        y = torch.cat([torch.zeros_like(y.narrow(dim, 0, 1)), y.narrow(dim, 0, y.shape[dim] - 1)], dim)
    return (y.flip(dim) if reverse else y).to(x.dtype)
)"},
           .jax = {.functions = R"(
def cumsum(x, dim, exclusive, reverse):
    dim %= x.ndim
    v = wide(x) if jnp.issubdtype(x.dtype, jnp.floating) else x
    y = lax.cumsum(v, dim, reverse)
    if exclusive:
        count = x.shape[dim]
        none = jnp.zeros_like(lax.slice_in_dim(y, 0, 1, axis=dim))
        others = lax.slice_in_dim(y, 1, count, axis=dim) if reverse else lax.slice_in_dim(y, 0, count - 1, axis=dim)
        y = jnp.concatenate([others, none] if reverse else [none, others], dim)
    return y.astype(x.dtype)
)"}}};
}

}  // namespace shardwright::ops
