// The k largest (or smallest) elements of the last dim, in order, and where they are. The dim stays whole.
//
// Of equal elements the first counts as larger; a NaN is larger than any number. The indices of a row are a heap
// in the result's memory whose root is the worst of the best, so a row of n elements takes n log k steps at most.

#include <algorithm>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  const Type& x = call.operands[0];
  check_number(x.dtype);
  call.attributes.flag("largest", true);
  const std::int64_t k = call.attributes.integer("k", 1);
  if (x.shape.empty() || k < 1 || k > x.shape.back())
    throw error("k is {} but should be from 1 to the size of the last dim of {}", k, to_text(x));
  Shape shape = x.shape;
  shape.back() = k;
  return {{x.dtype, shape}, {DType::i64, shape}};
}

/// Whether x[a] comes before x[b].
template <class T>
struct Before {
  const T* x;
  bool is_largest;

  bool operator()(std::int64_t a, std::int64_t b) const {
    const auto u = static_cast<Compute<T>>(x[a]), v = static_cast<Compute<T>>(x[b]);
    const bool above = u > v || (u != u && v == v), below = u < v || (v != v && u == u);
    if (above || below) return is_largest ? above : below;
    return a < b;
  }
};

/// The first k indices in the order `before`.
template <class T>
void select(Before<T> before, std::int64_t n, std::int64_t* indices, std::int64_t k) {
  for (std::int64_t i = 0; i < k; ++i) indices[i] = i;
  std::make_heap(indices, indices + k, before);
  for (std::int64_t i = k; i < n; ++i) {
    if (!before(i, indices[0])) continue;
    std::pop_heap(indices, indices + k, before);
    indices[k - 1] = i;
    std::push_heap(indices, indices + k, before);
  }
  std::sort_heap(indices, indices + k, before);
}

void kernel(const KernelCall& call) {
  const TensorView& x = call.operands[0];
  const std::int64_t n = x.shape.back(), k = call.results[0].shape.back();
  const std::int64_t rows = n == 0 ? 0 : x.size() / n;
  require(k <= n && rows * k == call.results[0].size(), "top_k of {} to {}", to_text(x.shape),
          to_text(call.results[0].shape));
  const bool is_largest = call.attributes.flag("largest", true);
  std::int64_t* const indices = call.results[1].as<std::int64_t>().data();
  visit_number(x.dtype, [&]<class T>(std::type_identity<T>) {
    T* const values = call.results[0].as<T>().data();
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = x.as<T>().data() + r * n;
      select(Before<T>{row, is_largest}, n, indices + r * k, k);
      for (std::int64_t i = r * k; i < (r + 1) * k; ++i) values[i] = row[indices[i]];
    }
  });
}

// ---- gradient ----

std::vector<ValueId> gradient(Gradient& g) {
  if (!g.dy().is_valid()) return {ValueId{}};
  return {g.call("top_k_grad", {g.dy(), g.out(1)}, {{"size", g.type(g.in(0)).shape.back()}})};
}

std::vector<Type> infer_gradient(const Call& call) {
  check_count(call, 2);
  const Type &dy = call.operands[0], &indices = call.operands[1];
  check_floating(dy.dtype);
  check_integer(indices.dtype);
  const std::int64_t size = call.attributes.integer("size", 0);
  if (size < 1) throw error("size is {} but must be at least 1", size);
  if (dy.shape != indices.shape || dy.shape.empty())
    throw error("operands 0 and 1 are {} and {}; their shapes must be equal", to_text(dy), to_text(indices));
  Type dx = dy;
  dx.shape.back() = size;
  return {dx};
}

/// dx[index] += dy. A rank that holds part of the dim takes the indices in its own range.
void gradient_kernel(const KernelCall& call) {
  const TensorView &dy = call.operands[0], &dx = call.results[0];
  const LoopBox::Part& n = call.loop("n");
  const Integers indices(call.operands[1]);
  const std::int64_t k = dy.shape.back();
  const std::span sums(reinterpret_cast<double*>(call.workspace), static_cast<std::size_t>(n.extent));
  visit_floating(dy.dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const auto from = dy.as<T>(), to = dx.as<T>();
    const std::int64_t rows = k == 0 ? 0 : indices.size() / k;
    if (k == 0) std::fill(to.begin(), to.end(), T(0));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::fill(sums.begin(), sums.end(), 0);
      for (std::int64_t i = r * k; i < (r + 1) * k; ++i)
        if (const std::int64_t at = indices[i] - n.offset; at >= 0 && at < n.extent)
          sums[static_cast<std::size_t>(at)] +=
              static_cast<double>(static_cast<C>(from[static_cast<std::size_t>(i)]));
      std::transform(sums.begin(), sums.end(), to.begin() + r * n.extent,
                     [](double sum) { return static_cast<T>(static_cast<C>(sum)); });
    }
  });
}

}  // namespace

std::vector<OpDef> top_k() {
  return {{.name = "top_k",
           .doc = "values and indices of the `k` largest elements of the last dim; largest=false: smallest",
           .attributes = {"k", "largest"},
           .defaults = {{"k", std::int64_t{1}}, {"largest", true}},
           .rule = "... n^ -> ... k^, ... k^",
           .infer = infer,
           .gradient = gradient,
           .kernel = kernel,
           .samples = {"f32[4,6] (k=2)", "f32[6,12] (k=6, largest=false)", "i32[4,6] (k=4)"},
           .torch = {.line = "top_k({0}, {k}, {largest})", .functions = R"(
def top_k(x, k, largest):
    """Of equal elements the first one comes first."""
    values, indices = torch.sort(x, dim=-1, descending=largest, stable=True)
    return values[..., :k].contiguous(), indices[..., :k].contiguous()
)"},
           .jax = {.functions = R"(
def top_k(x, k, largest):
    """Of equal elements the first one comes first."""
    indices = jnp.argsort(x, -1, stable=True, descending=largest)[..., :k]
    return jnp.take_along_axis(x, indices, -1), indices.astype(jnp.int64)
)"}},
          {.name = "top_k_grad",
           .doc = "dx = dy at the indices, 0 elsewhere",
           .attributes = {"size"},
           .rule = "... k+, ... k+ -> ... n",
           .linear = "{0}",
           .infer = infer_gradient,
           .kernel = gradient_kernel,
           .workspace =
               [](const KernelCall& call) {
                 return call.loop("n").extent * static_cast<std::int64_t>(sizeof(double));
               },
           .samples = {"f32[4,6], i64[4,6]<12 (size=12)", "f32[6,4], i32[6,4]<6 (size=6)"},
           .torch = {.line = "top_k_grad({0}, {1}, {n.offset}, {shape})", .functions = R"(
def top_k_grad(dy, indices, first, shape):
    at = indices.long() - first
    is_own = (at >= 0) & (at < shape[-1])
    dx = torch.zeros(shape, dtype=wide(dy).dtype, device=dy.device)
    return dx.scatter_add(-1, at.clamp(0, max(shape[-1] - 1, 0)), wide(dy) * is_own).to(dy.dtype)
)"},
           .jax = {.functions = R"(
def top_k_grad(dy, indices, first, shape):
    is_there = (indices.astype(jnp.int64) - first)[..., None] == jnp.arange(shape[-1])
    return jnp.where(is_there, wide(dy)[..., None], 0).sum(-2).astype(dy.dtype)
)"}}};
}

}  // namespace shardwright::ops
