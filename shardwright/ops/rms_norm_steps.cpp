// rms_norm in steps, each of which may be split along what is normalised: a sum of each row, and a step per element that
// needs it whole. What rms_norm expands into where a plan splits these dims (op.h, `expand`); lowering puts the
// reduction in between.
//
//   squares = sum x^2                          y = gamma x s,  s = 1 / sqrt(squares / n + epsilon)
//   dot = sum gamma dy x                       dx = s (gamma dy - x s^2 dot / n),  dgamma = sum dy x s

#include <array>
#include <cmath>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/op.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/last_dims.h"

namespace shardwright::ops {
namespace {

/// The type of sums of a row of x.
Type sums_of(const Type& x, std::size_t normalised) {
  const DType dtype = x.dtype == DType::f64 ? DType::f64 : DType::f32;
  return {dtype, Shape(x.shape.begin(), x.shape.end() - static_cast<std::ptrdiff_t>(normalised))};
}

/// Of operands from `first` on: sums, one of each row of x.
void check_sums(const Call& call, std::size_t first, const Type& x, const Type& gamma) {
  const Type want = sums_of(x, gamma.shape.size());
  for (std::size_t i = first; i < call.operands.size(); ++i) {
    check_floating(call.operands[i].dtype);
    if (call.operands[i].shape != want.shape)
      throw error("operand {} is {} but should be {}, a sum of each row of {}", i, to_text(call.operands[i]),
                  to_text(want), to_text(x));
  }
}

/// dy, x and gamma, in `dot` and in the gradient.
void check_differentiated(const Call& call) {
  check_floating(call.operands[1].dtype);
  check_same_dtype(call, 1, 0);
  check_weight_types(call, 1, 2, 3);
  if (call.operands[0].shape != call.operands[1].shape)
    throw error("dy is {} but x is {}; they must be equal", to_text(call.operands[0]),
                to_text(call.operands[1]));
  LastDims(call.operands[1], call.operands[2]);
}

std::size_t summed_dims(const Call& call) {
  check_count(call, 1);
  const std::int64_t count = call.attributes.integer("count", 1);
  if (count < 1 || count > static_cast<std::int64_t>(call.operands[0].shape.size()))
    throw error("count is {} but x is {}", count, to_text(call.operands[0]));
  return static_cast<std::size_t>(count);
}

std::string squares_rule(const Call& call) {
  const std::size_t count = summed_dims(call);
  const Shape& shape = call.operands[0].shape;
  const LastDims dims(
      call.operands[0],
      {call.operands[0].dtype, Shape(shape.end() - static_cast<std::ptrdiff_t>(count), shape.end())}, "+");
  return fmt::format("{} -> {}", dims.all, dims.leading);
}

std::vector<Type> infer_squares(const Call& call) {
  const std::size_t count = summed_dims(call);
  check_floating(call.operands[0].dtype);
  return {sums_of(call.operands[0], count)};
}

std::string dot_rule(const Call& call) {
  check_count(call, 3);
  const LastDims dims(call.operands[1], call.operands[2], "+");
  return fmt::format("{0}, {0}, {1} -> {2}", dims.all, dims.normalised, dims.leading);
}

std::vector<Type> infer_dot(const Call& call) {
  check_count(call, 3);
  check_differentiated(call);
  return {sums_of(call.operands[1], call.operands[2].shape.size())};
}

std::string by_squares_rule(const Call& call) {
  check_count(call, 3);
  const LastDims dims(call.operands[0], call.operands[1], "");
  return fmt::format("{0}, {1}, {2} -> {0}", dims.all, dims.normalised, dims.leading);
}

std::vector<Type> infer_by_squares(const Call& call) {
  check_count(call, 3);
  check_floating(call.operands[0].dtype);
  check_weight_types(call, 0, 1, 2);
  check_epsilon(call);
  LastDims(call.operands[0], call.operands[1]);
  check_sums(call, 2, call.operands[0], call.operands[1]);
  return {call.operands[0]};
}

std::string by_sums_rule(const Call& call) {
  check_count(call, 5);
  const LastDims dims(call.operands[1], call.operands[2], "");
  return fmt::format("{0}, {0}, {1}, {2}, {2} -> {0}, {1}", dims.all, dims.normalised, dims.leading);
}

std::vector<Type> infer_by_sums(const Call& call) {
  check_count(call, 5);
  check_epsilon(call);
  check_differentiated(call);
  check_sums(call, 3, call.operands[1], call.operands[2]);
  return {call.operands[1], call.operands[2]};
}

/// `f(std::type_identity<T>, std::type_identity<S>)`: the element type of x, and that of its sums.
void visit_with_sums(DType dtype, auto f) {
  visit_floating(dtype, [&]<class T>(std::type_identity<T> type) {
    f(type, std::type_identity<std::conditional_t<std::is_same_v<T, double>, double, float>>());
  });
}

void squares_kernel(const KernelCall& call) {
  const std::int64_t rows = call.results[0].size(), n = rows == 0 ? 0 : call.operands[0].size() / rows;
  visit_with_sums(
      call.operands[0].dtype, [&]<class T, class S>(std::type_identity<T>, std::type_identity<S>) {
        vectorized([rows, n, x = call.operands[0].as<T>().data(), y = call.results[0].as<S>().data()] {
          for (std::int64_t r = 0; r < rows; ++r)
            y[r] = static_cast<S>(fold<Sum>(n, [from = x + r * n](std::int64_t i) {
              const auto a = static_cast<Compute<T>>(from[i]);
              return a * a;
            }));
        });
      });
}

void dot_kernel(const KernelCall& call) {
  const std::int64_t rows = call.results[0].size(), n = call.operands[2].size();
  visit_with_sums(
      call.operands[1].dtype, [&]<class T, class S>(std::type_identity<T>, std::type_identity<S>) {
        visit_weights<T>(call.operands[2].dtype, [&]<class G>(std::type_identity<G>) {
          using C = Compute<T>;
          vectorized([rows, n, dy = call.operands[0].as<T>().data(), x = call.operands[1].as<T>().data(),
                      gamma = call.operands[2].as<G>().data(), y = call.results[0].as<S>().data()] {
            for (std::int64_t r = 0; r < rows; ++r)
              y[r] = static_cast<S>(fold<Sum>(n, [d = dy + r * n, from = x + r * n, gamma](std::int64_t i) {
                return static_cast<C>(d[i]) * static_cast<C>(gamma[i]) * static_cast<C>(from[i]);
              }));
          });
        });
      });
}

/// Elements that are normalised together, on all ranks: those of operand `gamma`.
double count_of(const KernelCall& call, std::size_t gamma) {
  double count = 1;
  for (const auto& loops : call.rule.operands[gamma].dims)
    count *= static_cast<double>(call.box.loops[static_cast<std::size_t>(loops.front())].size);
  return count;
}

void by_squares_kernel(const KernelCall& call) {
  const std::int64_t rows = call.operands[2].size(), n = call.operands[1].size();
  visit_floating(call.operands[0].dtype, [&]<class T>(std::type_identity<T>) {
    visit_weights<T>(call.operands[1].dtype, [&]<class G>(std::type_identity<G>) {
      using C = Compute<T>;
      vectorized([rows, n, count = count_of(call, 1), epsilon = epsilon_of(call.attributes),
                  x = call.operands[0].as<T>().data(), gamma = call.operands[1].as<G>().data(),
                  squares = Doubles(call.operands[2]), y = call.results[0].as<T>().data()] {
        for (std::int64_t r = 0; r < rows; ++r) {
          const C scale = static_cast<C>(1 / std::sqrt(squares[r] / count + epsilon));
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i)
            y[r * n + i] = static_cast<T>(static_cast<C>(x[r * n + i]) * scale * static_cast<C>(gamma[i]));
        }
      });
    });
  });
}

/// T: element type of x, G: of gamma.
template <class T, class G>
void by_sums(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t rows = call.operands[3].size(), n = call.operands[2].size();
  vectorized([rows, n, count = count_of(call, 2), epsilon = epsilon_of(call.attributes),
              dy = call.operands[0].as<T>().data(), x = call.operands[1].as<T>().data(),
              gamma = call.operands[2].as<G>().data(), squares = Doubles(call.operands[3]),
              dots = Doubles(call.operands[4]), dx = call.results[0].as<T>().data(),
              dgamma = call.results[1].as<G>().data()] {
    std::array<double, strip> gammas;
    double* const of_gamma = gammas.data();
    for (std::int64_t start = 0; start < n; start += strip) {
      const std::int64_t width = std::min(strip, n - start);
      gammas.fill(0);
      for (std::int64_t r = 0; r < rows; ++r) {
        const double s = 1 / std::sqrt(squares[r] / count + epsilon);
        const C scale = static_cast<C>(s), mean = static_cast<C>(s * dots[r] / count);
        const std::int64_t first = r * n + start;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < width; ++i) {
          const C d = static_cast<C>(dy[first + i]), normal = static_cast<C>(x[first + i]) * scale;
          dx[first + i] = static_cast<T>((d * static_cast<C>(gamma[start + i]) - normal * mean) * scale);
          of_gamma[i] += static_cast<double>(d * normal);
        }
      }
      for (std::int64_t i = 0; i < width; ++i)
        dgamma[start + i] = static_cast<G>(static_cast<C>(of_gamma[i]));
    }
  });
}

void by_sums_kernel(const KernelCall& call) {
  visit_floating(call.operands[1].dtype, [&]<class T>(std::type_identity<T>) {
    visit_weights<T>(call.operands[2].dtype, [&]<class G>(std::type_identity<G>) { by_sums<T, G>(call); });
  });
}

}  // namespace

std::vector<OpDef> rms_norm_steps() {
  return {
      {.name = "rms_norm_squares",
       .doc = "y = sum of x^2 over the last `count` dims, in f32 at least",
       .attributes = {"count"},
       .defaults = {{"count", std::int64_t{1}}},
       .rule_for = squares_rule,
       .infer = infer_squares,
       .kernel = squares_kernel,
       .samples = {"f32[4,6]", "f32[6,2,4] (count=2)"},
       .torch = {.line = "(wide({0}) ** 2).flatten(-{count}).sum(-1)"},
       .jax = {.line = "(wide({0}) ** 2).sum(tuple(range(-{count}, 0)))"}},
      {.name = "rms_norm_by_squares",
       .doc = "y = gamma x / sqrt(squares / n + epsilon), n elements being normalised together",
       .attributes = {"epsilon"},
       .defaults = {{"epsilon", 1e-5}},
       .rule_for = by_squares_rule,
       .linear = "{0} {1}",
       .infer = infer_by_squares,
       .kernel = by_squares_kernel,
       .samples = {"f32[4,6], f32[6], f32[4]>0", "f32[6,2,4], f32[2,4], f32[6]>0 (epsilon=0.5)"},
       .overwrites = {0},
       .torch = {.line = "rms_norm_by_squares({0}, {1}, {2}, {count}, {epsilon})",
                 .numbers =
                     [](const KernelCall& c) {
                       return Attributes{{"count", count_of(c, 1)}};
                     },
                 .functions = R"(
def rms_norm_by_squares(x, gamma, squares, count, epsilon):
    scale = torch.rsqrt(squares / count + epsilon).reshape(squares.shape + (1,) * gamma.dim())
    return (wide(x) * scale * wide(gamma)).to(x.dtype)
)"},
       .jax = {.functions = R"(
def rms_norm_by_squares(x, gamma, squares, count, epsilon):
    scale = lax.rsqrt(squares / count + epsilon).reshape(squares.shape + (1,) * gamma.ndim)
    return (wide(x) * scale * wide(gamma)).astype(x.dtype)
)"}},
      {.name = "rms_norm_dot",
       .doc = "y = sum of dy x gamma over the dims of gamma, in f32 at least",
       .rule_for = dot_rule,
       .linear = "{0} {1} {2}",
       .infer = infer_dot,
       .kernel = dot_kernel,
       .samples = {"f32[4,6], f32[4,6], f32[6]", "f32[6,2,4], f32[6,2,4], f32[2,4]"},
       .torch = {.line = "(wide({0}) * wide({2}) * wide({1})).flatten(-{2}.dim()).sum(-1)"},
       .jax = {.line = "(wide({0}) * wide({2}) * wide({1})).sum(tuple(range(-{2}.ndim, 0)))"}},
      {.name = "rms_norm_grad_by_sums",
       .doc = "gradients of rms_norm for x and gamma, from sums of x^2 and of dy x gamma",
       .attributes = {"epsilon"},
       .defaults = {{"epsilon", 1e-5}},
       .rule_for = by_sums_rule,
       .linear = "{0,4} {1,2}",
       .infer = infer_by_sums,
       .kernel = by_sums_kernel,
       .samples = {"f32[4,6], f32[4,6], f32[6], f32[4]>0, f32[4]",
                   "f32[6,2,4], f32[6,2,4], f32[2,4], f32[6]>0, f32[6] (epsilon=0.5)"},
       .torch = {.line = "rms_norm_grad_by_sums({0}, {1}, {2}, {3}, {4}, {count}, {epsilon})",
                 .numbers =
                     [](const KernelCall& c) {
                       return Attributes{{"count", count_of(c, 2)}};
                     },
                 .functions = R"(
def rms_norm_grad_by_sums(dy, x, gamma, squares, dot, count, epsilon):
    each = squares.shape + (1,) * gamma.dim()
    scale = torch.rsqrt(squares / count + epsilon).reshape(each)
    d, normal = wide(dy), wide(x) * scale
    dx = (d * wide(gamma) - normal * (scale * dot.reshape(each) / count)) * scale
    return dx.to(x.dtype), (d * normal).sum(list(range(squares.dim()))).to(gamma.dtype)
)"},
       .jax = {.functions = R"(
def rms_norm_grad_by_sums(dy, x, gamma, squares, dot, count, epsilon):
    each = squares.shape + (1,) * gamma.ndim
    scale = lax.rsqrt(squares / count + epsilon).reshape(each)
    d, normal = wide(dy), wide(x) * scale
    dx = (d * wide(gamma) - normal * (scale * dot.reshape(each) / count)) * scale
    return dx.astype(x.dtype), (d * normal).sum(tuple(range(squares.ndim))).astype(gamma.dtype)
)"}},
  };
}

}  // namespace shardwright::ops
