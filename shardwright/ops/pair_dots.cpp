// Dot products of all pairs of rows: how a recommender's features meet (Naumov and others 2019).
//
//   y[b.., p] = sum over d of x[b.., i, d] x[b.., j, d] for all j < i, p counting (1,0), (2,0), (2,1), (3,0), ...
//
// The features d may be split, as tables cut by columns make them: the products are then partial sums.

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::int64_t pairs_of(std::int64_t rows) { return rows * (rows - 1) / 2; }

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  const Type& x = call.operands[0];
  check_floating(x.dtype);
  if (x.shape.size() < 2 || x.shape[x.shape.size() - 2] < 2)
    throw error("x is {}; it should be [..., rows, features] with at least two rows", to_text(x));
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  shape.back() = pairs_of(shape.back());
  return {{x.dtype, std::move(shape)}};
}

std::vector<Type> infer_grad(const Call& call) {
  check_count(call, 2);
  const Type want = infer({call.operands.subspan(1), {}, call.attributes})[0];
  if (call.operands[0] != want)
    throw error("dy is {} but x {} has pairs {}", to_text(call.operands[0]), to_text(call.operands[1]),
                to_text(want));
  return {call.operands[1]};
}

/// x as `count` times rows of features.
struct Blocks {
  std::int64_t count, rows, features, pairs;

  explicit Blocks(const TensorView& x)
      : count(element_count(std::span(x.shape).first(x.shape.size() - 2))),
        rows(x.shape[x.shape.size() - 2]),
        features(x.shape.back()),
        pairs(pairs_of(rows)) {}
};

/// x, whose pairs `of_pairs` has all of.
Blocks blocks_of(const TensorView& x, const TensorView& of_pairs) {
  const Blocks n(x);
  require(of_pairs.shape.back() == n.pairs, "{} rows have {} pairs, not {}", n.rows, n.pairs,
          of_pairs.shape.back());
  return n;
}

void kernel(const KernelCall& call) {
  const Blocks n = blocks_of(call.operands[0], call.results[0]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const all = call.operands[0].as<T>().data();
    T* y = call.results[0].as<T>().data();
    for (std::int64_t b = 0; b < n.count; ++b)
      for (std::int64_t i = 1; i < n.rows; ++i)
        for (std::int64_t j = 0; j < i; ++j) {
          const T *const p = all + (b * n.rows + i) * n.features, *const q =
                                                                      all + (b * n.rows + j) * n.features;
          Accumulator<T> sum = 0;
          for (std::int64_t d = 0; d < n.features; ++d)
            sum += static_cast<Accumulator<T>>(static_cast<Compute<T>>(p[d])) *
                   static_cast<Accumulator<T>>(static_cast<Compute<T>>(q[d]));
          *y++ = static_cast<T>(static_cast<Compute<T>>(sum));
        }
  });
}

/// dx[i] = sum over j of dy[pair of i and j] x[j]
void grad_kernel(const KernelCall& call) {
  const Blocks n = blocks_of(call.operands[1], call.operands[0]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const std::span<Accumulator<T>> sums(reinterpret_cast<Accumulator<T>*>(call.workspace),
                                         static_cast<std::size_t>(n.features));
    const T *dy = call.operands[0].as<T>().data(), *x = call.operands[1].as<T>().data();
    T* dx = call.results[0].as<T>().data();
    for (std::int64_t b = 0; b < n.count; ++b, dy += n.pairs, x += n.rows * n.features)
      for (std::int64_t i = 0; i < n.rows; ++i, dx += n.features) {
        std::fill(sums.begin(), sums.end(), Accumulator<T>(0));
        for (std::int64_t j = 0; j < n.rows; ++j) {
          if (j == i) continue;
          const std::int64_t pair = pairs_of(std::max(i, j)) + std::min(i, j);
          const auto factor = static_cast<Accumulator<T>>(static_cast<Compute<T>>(dy[pair]));
          for (std::int64_t d = 0; d < n.features; ++d)
            sums[static_cast<std::size_t>(d)] +=
                factor * static_cast<Accumulator<T>>(static_cast<Compute<T>>(x[j * n.features + d]));
        }
        for (std::int64_t d = 0; d < n.features; ++d)
          dx[d] = static_cast<T>(static_cast<Compute<T>>(sums[static_cast<std::size_t>(d)]));
      }
  });
}

double size_of_loop(const Rule& rule, std::string_view name) {
  return static_cast<double>(rule.loops[static_cast<std::size_t>(rule.loop(name))].size);
}

/// Two per feature of a pair, and of each of its rows in the gradient; what the rule's points are, no loop over pairs.
double flops(const Rule& rule, double of_pair) {
  double n = of_pair * size_of_loop(rule, "p");
  for (const LoopDim& l : rule.loops)
    if (l.name != "p" && l.name != "f") n *= static_cast<double>(l.size);
  return n;
}

constexpr const char* in_torch = R"(
def pairs_of(rows, device):
    i, j = torch.tril_indices(rows, rows, -1, device=device)
    return i, j


def pair_dots(x):
    i, j = pairs_of(x.shape[-2], x.device)
    return (wide(x) @ wide(x).transpose(-1, -2))[..., i, j].to(x.dtype)
)";

constexpr const char* in_jax = R"(
def pair_dots(x):
    i, j = jnp.tril_indices(x.shape[-2], -1)
    return jnp.matmul(wide(x), jnp.swapaxes(wide(x), -1, -2))[..., i, j].astype(x.dtype)
)";

}  // namespace

std::vector<OpDef> pair_dots() {
  return {{.name = "pair_dots",
           .doc = "y[.., p] = x[.., i, :] . x[.., j, :] for each pair p of rows j < i",
           .rule = "... f^ d+ -> ... p^",
           .infer = infer,
           .flops = [](const Rule& rule) { return flops(rule, 2); },
           .gradient =
               [](Gradient& g) {
                 return std::vector<ValueId>{g.call("pair_dots_grad", {g.dy(), g.in(0)})};
               },
           .kernel = kernel,
           .samples = {"f32[6,3,4]", "f32[2,6,4,6]"},
           .torch = {.line = "pair_dots({0})", .functions = in_torch},
           .jax = {.functions = in_jax}},
          {.name = "pair_dots_grad",
           .doc = "dx[.., i, :] = sum over j of dy[.., pair of i and j] x[.., j, :]",
           .rule = "... p^, ... f^ d -> ... f d",
           .linear = "{0} {1}",
           .infer = infer_grad,
           .flops = [](const Rule& rule) { return flops(rule, 4); },
           .kernel = grad_kernel,
           .workspace =
               [](const KernelCall& call) {
                 return call.operands[1].shape.back() * static_cast<std::int64_t>(sizeof(double));
               },
           .samples = {"f32[6,3], f32[6,3,4]", "f32[2,6,6], f32[2,6,4,6]"},
           .torch = {.line = "pair_dots_grad({0}, {1})", .functions = std::string(in_torch) + R"(
def pair_dots_grad(dy, x):
    i, j = pairs_of(x.shape[-2], x.device)
    products = torch.zeros(x.shape[:-1] + (x.shape[-2],), dtype=wide(x).dtype, device=x.device)
    products[..., i, j] = wide(dy)
    return ((products + products.transpose(-1, -2)) @ wide(x)).to(x.dtype)
)"},
           .jax = {.functions = R"(
def pair_dots_grad(dy, x):
    i, j = jnp.tril_indices(x.shape[-2], -1)
    products = jnp.zeros(x.shape[:-1] + (x.shape[-2],), wide(x).dtype).at[..., i, j].set(wide(dy))
    return jnp.matmul(products + jnp.swapaxes(products, -1, -2), wide(x)).astype(x.dtype)
)"}}};
}

}  // namespace shardwright::ops
