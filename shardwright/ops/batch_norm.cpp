// Batch normalisation in training mode, per channel (dim 1) over the batch and all pixels of the whole batch.
//
//   moments = (mean x, mean x^2)                               batch_moments
//   y = gamma x^ + beta,  x^ = (x - mean) s,  s = 1 / sqrt(variance + epsilon)    batch_norm
//   dgamma = sum dy x^,  dbeta = sum dy                        batch_norm_weights_grad
//   dx = gamma s (dy - dbeta / N - x^ dgamma / N)              batch_norm_grad
//
// Two steps each way: sums, which are partial over the axes that shard batch and pixels, and a step per element that
// needs them whole. So lowering puts one all_reduce between them: the statistics are those of the whole batch
// however it is split. `batch_norm` (ops/calls.h) adds all of them, and the running mean and variance. Moments are
// f64, so that the variance may be taken as a difference of means.
//
// dx is the whole derivative, that through the moments included: none flows to the operand `moments`.

#include <algorithm>
#include <array>
#include <cmath>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/batch_norm.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/fold.h"

namespace shardwright::ops {
namespace {

/// `i0 c i2 i3`
std::string pixels_text(const Type& x, std::string_view mark = "") {
  if (x.shape.size() < 2) throw error("x is {} but needs a batch and a channel dim", to_text(x));
  std::string text = fmt::format("i0{} c", mark);
  for (std::size_t d = 2; d < x.shape.size(); ++d) text += " " + loop_name(d, mark);
  return text;
}

/// x as `batch` times `channels` planes of `pixels` elements each.
struct Planes {
  std::int64_t batch, channels, pixels;

  explicit Planes(const TensorView& x) : batch(x.shape[0]), channels(x.shape[1]) {
    pixels = element_count(std::span<const std::int64_t>(x.shape).subspan(2));
  }
};

/// Mean and 1 / sqrt(variance + epsilon) of each channel.
struct Statistics {
  Doubles moments;
  std::int64_t channels;
  double epsilon;

  Statistics(const KernelCall& call, std::size_t operand)
      : moments(call.operands[operand]),
        channels(call.operands[operand].shape[1]),
        epsilon(call.attributes.number("epsilon", batch_norm_epsilon)) {}

  double mean(std::int64_t c) const { return moments[c]; }
  double scale(std::int64_t c) const {
    const double variance = moments[channels + c] - mean(c) * mean(c);
    return 1 / std::sqrt(std::max(variance, 0.0) + epsilon);
  }
};

void check_epsilon(const Call& call) {
  if (const double e = call.attributes.number("epsilon", batch_norm_epsilon); !(e > 0))
    throw error("epsilon is {} but must be positive; write for example (epsilon=1e-5)", e);
}

/// Two sums over batch and pixels of each channel, of `first(i, c)` and `second(i, c)`, i being where the element
/// stands: `done(c, sum of first, sum of second)`. Strips of channels keep their sums on the stack.
template <class First, class Second, class Done>
void sum_channels(const Planes& planes, First first, Second second, Done done) {
  constexpr std::int64_t strip = 256;
  std::array<double, strip> firsts, seconds;
  double *const a = firsts.data(), *const b = seconds.data();
  for (std::int64_t start = 0; start < planes.channels; start += strip) {
    const std::int64_t width = std::min(strip, planes.channels - start);
    firsts.fill(0);
    seconds.fill(0);
    for (std::int64_t row = 0; row < planes.batch; ++row)
      for (std::int64_t k = 0; k < width; ++k) {
        const std::int64_t c = start + k, at = (row * planes.channels + c) * planes.pixels;
        a[k] += fold<Sum>(planes.pixels, [=](std::int64_t i) { return first(at + i, c); });
        b[k] += fold<Sum>(planes.pixels, [=](std::int64_t i) { return second(at + i, c); });
      }
    for (std::int64_t k = 0; k < width; ++k) done(start + k, a[k], b[k]);
  }
}

// ---- moments ----

std::string moments_rule(const Call& call) {
  check_count(call, 1);
  return pixels_text(call.operands[0], "+") + " -> m^ c";
}

std::vector<Type> infer_moments(const Call& call) {
  check_count(call, 1);
  check_floating(call.operands[0].dtype);
  pixels_text(call.operands[0]);
  return {{DType::f64, {2, call.operands[0].shape[1]}}};
}

void moments_kernel(const KernelCall& call) {
  require(call.results[0].shape[0] == 2, "moments in {} rows", call.results[0].shape[0]);
  visit_floating(call.operands[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    vectorized([planes = Planes(call.operands[0]), count = batch_norm_count(call),
                x = call.operands[0].as<T>().data(), y = call.results[0].as<double>().data()] {
      const auto value = [x](std::int64_t i, std::int64_t) {
        return static_cast<double>(static_cast<C>(x[i]));
      };
      const auto square = [x](std::int64_t i, std::int64_t) {
        const double v = static_cast<double>(static_cast<C>(x[i]));
        return v * v;
      };
      sum_channels(planes, value, square, [=](std::int64_t c, double sum, double squares) {
        y[c] = sum / count;
        y[planes.channels + c] = squares / count;
      });
    });
  });
}

// ---- the normalised batch ----

std::string norm_rule(const Call& call) {
  check_count(call, 4);
  return fmt::format("{0}, c, c, m^ c -> {0}", pixels_text(call.operands[0]));
}

std::vector<Type> infer_norm(const Call& call) {
  check_count(call, 4);
  const Type& x = call.operands[0];
  check_floating(x.dtype);
  check_epsilon(call);
  pixels_text(x);
  for (std::size_t i : {std::size_t{1}, std::size_t{2}}) check_channels(call, i, x);
  check_weight_types(call, 0, 1, 3);
  check_channels(call, 3, x, true);
  return {x};
}

void norm_kernel(const KernelCall& call) {
  require(call.operands[3].shape[0] == 2, "moments in {} rows", call.operands[3].shape[0]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    vectorized([planes = Planes(call.operands[0]), of = Statistics(call, 3),
                x = call.operands[0].as<T>().data(), gamma = Doubles(call.operands[1]),
                beta = Doubles(call.operands[2]), y = call.results[0].as<T>().data()] {
      for (std::int64_t c = 0; c < planes.channels; ++c) {
        const C mean = static_cast<C>(of.mean(c)), shift = static_cast<C>(beta[c]);
        const C scale = static_cast<C>(of.scale(c)) * static_cast<C>(gamma[c]);
        for (std::int64_t b = 0; b < planes.batch; ++b) {
          const std::int64_t at = (b * planes.channels + c) * planes.pixels;
#pragma GCC ivdep
          for (std::int64_t i = at; i < at + planes.pixels; ++i)
            y[i] = static_cast<T>((static_cast<C>(x[i]) - mean) * scale + shift);
        }
      }
    });
  });
}

std::vector<ValueId> norm_gradient(Gradient& g) {
  const auto of_weights = g.call_all("batch_norm_weights_grad", {g.dy(), g.in(0), g.in(3)}, g.attributes());
  const ValueId dx = g.call(
      "batch_norm_grad", {g.dy(), g.in(0), g.in(1), g.in(3), of_weights[0], of_weights[1]}, g.attributes());
  const DType dtype = g.type(g.in(1)).dtype;
  return {dx, cast_to(g, of_weights[0], dtype), cast_to(g, of_weights[1], dtype), {}};
}

std::string weights_rule(const Call& call) {
  check_count(call, 3);
  return fmt::format("{0}, {0}, m^ c -> c, c", pixels_text(call.operands[1], "+"));
}

std::vector<Type> infer_weights(const Call& call) {
  check_count(call, 3);
  const Type& x = call.operands[1];
  check_floating(x.dtype);
  check_epsilon(call);
  check_same_dtype(call, 0, 1);
  pixels_text(x);
  check_channels(call, 2, x, true);
  return std::vector<Type>(2, Type{x.dtype == DType::f64 ? DType::f64 : DType::f32, {x.shape[1]}});
}

void weights_kernel(const KernelCall& call) {
  require(call.operands[2].shape[0] == 2, "moments in {} rows", call.operands[2].shape[0]);
  visit_floating(call.operands[1].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    vectorized([planes = Planes(call.operands[1]), of = Statistics(call, 2),
                dy = call.operands[0].as<T>().data(), x = call.operands[1].as<T>().data(),
                dgamma = call.results[0].as<C>().data(), dbeta = call.results[1].as<C>().data()] {
      // sum dy x^ = s sum dy (x - mean)
      const auto product = [=](std::int64_t i, std::int64_t c) {
        return static_cast<C>(dy[i]) * (static_cast<C>(x[i]) - static_cast<C>(of.mean(c)));
      };
      const auto value = [dy](std::int64_t i, std::int64_t) { return static_cast<C>(dy[i]); };
      sum_channels(planes, product, value, [=](std::int64_t c, double products, double sum) {
        dgamma[c] = static_cast<C>(products * of.scale(c));
        dbeta[c] = static_cast<C>(sum);
      });
    });
  });
}

std::string gradient_rule(const Call& call) {
  check_count(call, 6);
  return fmt::format("{0}, {0}, c, m^ c, c, c -> {0}", pixels_text(call.operands[1]));
}

std::vector<Type> infer_gradient(const Call& call) {
  check_count(call, 6);
  const Type& x = call.operands[1];
  check_floating(x.dtype);
  check_epsilon(call);
  check_same_dtype(call, 0, 1);
  pixels_text(x);
  for (std::size_t i : {std::size_t{2}, std::size_t{4}, std::size_t{5}}) {
    check_channels(call, i, x);
  }
  check_channels(call, 3, x, true);
  return {x};
}

void gradient_kernel(const KernelCall& call) {
  require(call.operands[3].shape[0] == 2, "moments in {} rows", call.operands[3].shape[0]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    vectorized([planes = Planes(call.operands[1]), of = Statistics(call, 3), count = batch_norm_count(call),
                dy = call.operands[0].as<T>().data(), x = call.operands[1].as<T>().data(),
                gamma = Doubles(call.operands[2]), dgamma = Doubles(call.operands[4]),
                dbeta = Doubles(call.operands[5]), dx = call.results[0].as<T>().data()] {
      for (std::int64_t c = 0; c < planes.channels; ++c) {
        const double s = of.scale(c);
        const C mean = static_cast<C>(of.mean(c)), shift = static_cast<C>(dbeta[c] / count);
        const C slope = static_cast<C>(dgamma[c] * s / count);
        const C scale = static_cast<C>(gamma[c] * s);
        for (std::int64_t b = 0; b < planes.batch; ++b) {
          const std::int64_t at = (b * planes.channels + c) * planes.pixels;
#pragma GCC ivdep
          for (std::int64_t i = at; i < at + planes.pixels; ++i)
            dx[i] = static_cast<T>((static_cast<C>(dy[i]) - shift - (static_cast<C>(x[i]) - mean) * slope) *
                                   scale);
        }
      }
    });
  });
}

}  // namespace

std::vector<OpDef> batch_norm() {
  return {
      {.name = "batch_moments",
       .doc = "y[0, c] = mean of x and y[1, c] = mean of x^2 over all dims but dim 1, in f64",
       .rule_for = moments_rule,
       .infer = infer_moments,
       .kernel = moments_kernel,
       .samples = {"f32[4,6]", "f32[6,4,2,3]"},
       .torch = {.line = "batch_moments({0}, {count})",
                 .numbers =
                     [](const KernelCall& c) {
                       return Attributes{{"count", batch_norm_count(c)}};
                     },
                 .functions = batch_norm_in_torch},
       .jax = {.functions = batch_norm_in_jax}},
      {.name = "batch_norm",
       .doc = "y = gamma (x - mean) / sqrt(variance + epsilon) + beta, by the moments of batch_moments",
       .attributes = {"epsilon"},
       .defaults = {{"epsilon", batch_norm_epsilon}},
       .rule_for = norm_rule,
       .linear = "{1,2}",
       .infer = infer_norm,
       .gradient = norm_gradient,
       .kernel = norm_kernel,
       .samples = {"f32[4,6], f32[6], f32[6], f32[2,6]",
                   "f32[6,4,2,3], f32[4], f32[4], f32[2,4] (epsilon=0.5)"},
       .is_made_by_rows = true,
       .overwrites = {0},
       .torch = {.line = "batch_norm({0}, {1}, {2}, {3}, {epsilon})", .functions = batch_norm_in_torch},
       .jax = {.functions = batch_norm_in_jax}},
      {.name = "batch_norm_weights_grad",
       .doc = "dgamma = sum of dy x^ and dbeta = sum of dy",
       .attributes = {"epsilon"},
       .defaults = {{"epsilon", batch_norm_epsilon}},
       .rule_for = weights_rule,
       .linear = "{0}",
       .infer = infer_weights,
       .kernel = weights_kernel,
       .samples = {"f32[4,6], f32[4,6], f32[2,6]", "f32[6,4,2,3], f32[6,4,2,3], f32[2,4] (epsilon=0.5)"},
       .torch = {.line = "batch_norm_weights_grad({0}, {1}, {2}, {epsilon})",
                 .functions = batch_norm_in_torch},
       .jax = {.functions = batch_norm_in_jax}},
      {.name = "batch_norm_grad",
       .doc = "dx = gamma s (dy - dbeta / N - x^ dgamma / N) with s = 1 / sqrt(variance + epsilon)",
       .attributes = {"epsilon"},
       .defaults = {{"epsilon", batch_norm_epsilon}},
       .rule_for = gradient_rule,
       .linear = "{0,4,5} {2}",
       .infer = infer_gradient,
       .kernel = gradient_kernel,
       .samples = {"f32[4,6], f32[4,6], f32[6], f32[2,6], f32[6], f32[6] (epsilon=0.25)",
                   "f32[6,4,2,3], f32[6,4,2,3], f32[4], f32[2,4], f32[4], f32[4] (epsilon=0.5)"},
       .overwrites = {0},
       .torch = {.line = "batch_norm_grad({*}, {count}, {epsilon})",
                 .numbers =
                     [](const KernelCall& c) {
                       return Attributes{{"count", batch_norm_count(c)}};
                     },
                 .functions = batch_norm_in_torch},
       .jax = {.functions = batch_norm_in_jax}},
  };
}

}  // namespace shardwright::ops
