// Normalisation over parts of one example: layer_norm, rms_norm, group_norm, each with one gradient operator.
//
//   x^ = (x - mean) s,  s = 1 / sqrt(variance + epsilon),  y = gamma x^ + beta
//   dx = s (g - mean g - x^ mean(g x^)) with g = gamma dy,  dgamma = sum dy x^,  dbeta = sum dy
//
// rms_norm takes the mean for 0 and has no beta. layer_norm and rms_norm normalise the last dims, as many as gamma
// has; group_norm each of `groups` groups of channels (dim 1) with their pixels. What is normalised together
// stays whole; the gradients of gamma and beta are partial over the axes that shard the other dims.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/last_dims.h"

namespace shardwright::ops {
namespace {

/// Mean (0 unless centered) and 1 / sqrt(variance + epsilon) of one row.
template <class C>
struct Moments {
  C mean = 0;
  C scale = 1;
};

template <bool is_centered, class T, class C = Compute<T>>
Moments<C> moments_of(const T* x, std::int64_t n, double epsilon) {
  Moments<C> m;
  const double count = static_cast<double>(n);
  if constexpr (is_centered)
    m.mean = static_cast<C>(fold<Sum>(n, [x](std::int64_t i) { return static_cast<C>(x[i]); }) / count);
  const double variance = fold<Sum>(n,
                                    [x, mean = m.mean](std::int64_t i) {
                                      const C d = static_cast<C>(x[i]) - mean;
                                      return d * d;
                                    }) /
                          count;
  m.scale = static_cast<C>(1 / std::sqrt(variance + epsilon));
  return m;
}

// ---- the last dims ----

/// Operands from `first` = x on: dy before it, gamma, and beta where there is one, behind.
void check_weights(const Call& call, std::size_t first, std::size_t count) {
  check_count(call, count);
  check_floating(call.operands[first].dtype);
  check_epsilon(call);
  for (std::size_t i = 0; i < first; ++i) check_same_dtype(call, first, i);
  check_weight_types(call, first, first + 1, count);
}

template <bool is_centered>
std::string last_rule(const Call& call) {
  check_count(call, is_centered ? 3 : 2);
  const LastDims dims(call.operands[0], call.operands[1], is_centered ? "^" : "*");
  return fmt::format(is_centered ? "{0}, {1}, {1} -> {0}" : "{0}, {1} -> {0}", dims.all, dims.normalised);
}

template <bool is_centered>
std::string last_gradient_rule(const Call& call) {
  check_count(call, 3);
  const LastDims dims(call.operands[1], call.operands[2], is_centered ? "^" : "*");
  return fmt::format(is_centered ? "{0}, {0}, {1} -> {0}, {1}, {1}" : "{0}, {0}, {1} -> {0}, {1}", dims.all,
                     dims.normalised);
}

/// gamma and beta, where there is one, have the same shape.
void check_beta(const Call& call) {
  if (call.operands[2].shape != call.operands[1].shape)
    throw error("beta is {} but gamma is {}; they must be equal", to_text(call.operands[2]),
                to_text(call.operands[1]));
}

template <bool is_centered>
std::vector<Type> infer_last(const Call& call) {
  check_weights(call, 0, is_centered ? 3 : 2);
  if constexpr (is_centered) check_beta(call);
  LastDims(call.operands[0], call.operands[1]);
  return {call.operands[0]};
}

template <bool is_centered>
std::vector<Type> infer_last_gradient(const Call& call) {
  check_weights(call, 1, 3);
  LastDims(call.operands[1], call.operands[2]);
  std::vector<Type> types(is_centered ? 3 : 2, call.operands[2]);
  types[0] = call.operands[1];
  return types;
}

template <bool is_centered>
void last_kernel(const KernelCall& call) {
  const std::int64_t n = call.operands[1].size(), rows = n == 0 ? 0 : call.operands[0].size() / n;
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    visit_weights<T>(call.operands[1].dtype, [&]<class G>(std::type_identity<G>) {
      using C = Compute<T>;
      vectorized([n, rows, epsilon = epsilon_of(call.attributes), x = call.operands[0].as<T>().data(),
                  gamma = call.operands[1].as<G>().data(),
                  beta = call.operands[is_centered ? 2 : 1].as<G>().data(),
                  y = call.results[0].as<T>().data()] {
        for (std::int64_t r = 0; r < rows; ++r) {
          const T* const from = x + r * n;
          T* const to = y + r * n;
          const Moments<C> m = moments_of<is_centered>(from, n, epsilon);
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i) {
            const C scaled = (static_cast<C>(from[i]) - m.mean) * m.scale * static_cast<C>(gamma[i]);
            to[i] = static_cast<T>(is_centered ? scaled + static_cast<C>(beta[i]) : scaled);
          }
        }
      });
    });
  });
}

/// mean g and mean(g x^) of one row; the mean of g only if centered.
template <class C>
struct Means {
  C g = 0;
  C gx = 0;
};

/// dx = s (g - mean g - x^ mean(g x^)). `gamma(i)` is that of element i.
template <bool is_centered, class T, class G, class C = Compute<T>>
void gradient_row(const T* dy, const T* x, G gamma, T* dx, std::int64_t n, Moments<C> m) {
  const auto g = [dy, gamma](std::int64_t i) { return static_cast<C>(dy[i]) * gamma(i); };
  const auto normal = [x, m](std::int64_t i) { return (static_cast<C>(x[i]) - m.mean) * m.scale; };
  const double count = static_cast<double>(n);
  Means<C> mean;
  if constexpr (is_centered) mean.g = static_cast<C>(fold<Sum>(n, g) / count);
  mean.gx = static_cast<C>(fold<Sum>(n, [g, normal](std::int64_t i) { return g(i) * normal(i); }) / count);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = static_cast<T>((g(i) - mean.g - normal(i) * mean.gx) * m.scale);
}

/// T: element type of x, G: of gamma.
template <bool is_centered, class T, class G>
void last_gradient(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t n = call.operands[2].size(), rows = n == 0 ? 0 : call.operands[1].size() / n;
  vectorized([n, rows, epsilon = epsilon_of(call.attributes), dy = call.operands[0].as<T>().data(),
              x = call.operands[1].as<T>().data(), gamma = call.operands[2].as<G>().data(),
              dx = call.results[0].as<T>().data(), dgamma = call.results[1].as<G>().data(),
              dbeta = call.results[is_centered ? 2 : 1].as<G>().data()] {
    std::array<double, strip> gammas, betas;
    double *const of_gamma = gammas.data(), *const of_beta = betas.data();
    for (std::int64_t start = 0; start < n; start += strip) {
      const std::int64_t width = std::min(strip, n - start);
      gammas.fill(0);
      betas.fill(0);
      for (std::int64_t r = 0; r < rows; ++r) {
        const T *const g = dy + r * n, *const from = x + r * n;
        const Moments<C> m = moments_of<is_centered>(from, n, epsilon);
        if (start == 0)
          gradient_row<is_centered>(
              g, from, [gamma](std::int64_t i) { return static_cast<C>(gamma[i]); }, dx + r * n, n, m);
#pragma GCC ivdep
        for (std::int64_t i = 0; i < width; ++i) {
          const C d = static_cast<C>(g[start + i]);
          const C normal = (static_cast<C>(from[start + i]) - m.mean) * m.scale;
          of_gamma[i] += static_cast<double>(d * normal);
          if constexpr (is_centered) of_beta[i] += static_cast<double>(d);
        }
      }
      for (std::int64_t i = 0; i < width; ++i) {
        dgamma[start + i] = static_cast<G>(static_cast<C>(of_gamma[i]));
        if constexpr (is_centered) dbeta[start + i] = static_cast<G>(static_cast<C>(of_beta[i]));
      }
    }
  });
}

template <bool is_centered>
void last_gradient_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    visit_weights<T>(call.operands[2].dtype,
                     [&]<class G>(std::type_identity<G>) { last_gradient<is_centered, T, G>(call); });
  });
}

// ---- rms_norm where what it normalises is split (rms_norm_steps.cpp) ----

Attributes count_attribute(Builder& builder, ValueId gamma) {
  return {{"count", static_cast<std::int64_t>(builder.type(gamma).shape.size())}};
}

std::vector<ValueId> expand_rms_norm(Builder& builder, std::span<const ValueId> in,
                                     const Attributes& attributes) {
  const ValueId squares = builder.call("rms_norm_squares", {in[0]}, count_attribute(builder, in[1]));
  return {builder.call("rms_norm_by_squares", {in[0], in[1], squares}, attributes)};
}

std::vector<ValueId> expand_rms_norm_gradient(Builder& builder, std::span<const ValueId> in,
                                              const Attributes& attributes) {
  const ValueId squares = builder.call("rms_norm_squares", {in[1]}, count_attribute(builder, in[2]));
  const ValueId dot = builder.call("rms_norm_dot", {in[0], in[1], in[2]});
  return builder.call_all(find_op("rms_norm_grad_by_sums"), {in[0], in[1], in[2], squares, dot}, attributes);
}

// ---- groups of channels ----

std::int64_t groups_of(const Call& call, std::size_t x) {
  const Type& type = call.operands[x];
  if (type.shape.size() < 2) throw error("x is {} but needs a batch and a channel dim", to_text(type));
  const std::int64_t groups = call.attributes.integer("groups", 1);
  if (groups < 1 || type.shape[1] % groups != 0)
    throw error("groups is {} but must divide the {} channels of {}", groups, type.shape[1], to_text(type));
  for (std::size_t i = x + 1; i < call.operands.size(); ++i)
    if (call.operands[i].shape != Shape{type.shape[1]})
      throw error("operand {} is {} but there are {} channels in {}", i, to_text(call.operands[i]),
                  type.shape[1], to_text(type));
  return groups;
}

std::string pixels_text(const Type& x) {
  std::string text = "i0 c^";
  for (std::size_t d = 2; d < x.shape.size(); ++d) text += " " + loop_name(d, "^");
  return text;
}

std::string group_rule(const Call& call) {
  check_count(call, 3);
  return fmt::format("{0}, c^, c^ -> {0}", pixels_text(call.operands[0]));
}

std::string group_gradient_rule(const Call& call) {
  check_count(call, 3);
  return fmt::format("{0}, {0}, c^ -> {0}, c^, c^", pixels_text(call.operands[1]));
}

std::vector<Type> infer_group(const Call& call) {
  check_weights(call, 0, 3);
  groups_of(call, 0);
  return {call.operands[0]};
}

std::vector<Type> infer_group_gradient(const Call& call) {
  check_weights(call, 1, 3);
  groups_of(call, 1);
  return {call.operands[1], call.operands[2], call.operands[2]};
}

/// `length` channels a group of `pixels` elements each.
struct Groups {
  std::int64_t batch = 0, count = 1, length = 1, pixels = 1;

  Groups(const KernelCall& call, std::size_t x)
      : batch(call.operands[x].shape[0]), count(call.attributes.integer("groups", 1)) {
    const std::span<const std::int64_t> shape = call.operands[x].shape;
    require(shape[1] % count == 0, "{} groups of {} channels", count, shape[1]);
    length = shape[1] / count;
    pixels = element_count(shape.subspan(2));
  }
};

void group_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    vectorized([groups = Groups(call, 0), epsilon = epsilon_of(call.attributes),
                x = call.operands[0].as<T>().data(), gammas = Doubles(call.operands[1]),
                betas = Doubles(call.operands[2]), y = call.results[0].as<T>().data()] {
      for (std::int64_t r = 0; r < groups.batch * groups.count; ++r) {
        const std::int64_t first = r * groups.length * groups.pixels;
        const Moments<C> m = moments_of<true>(x + first, groups.length * groups.pixels, epsilon);
        for (std::int64_t c = 0; c < groups.length; ++c) {
          const std::int64_t channel = r % groups.count * groups.length + c;
          const C scale = m.scale * static_cast<C>(gammas[channel]), shift = static_cast<C>(betas[channel]);
          const T* const from = x + first + c * groups.pixels;
          T* const to = y + first + c * groups.pixels;
#pragma GCC ivdep
          for (std::int64_t i = 0; i < groups.pixels; ++i)
            to[i] = static_cast<T>((static_cast<C>(from[i]) - m.mean) * scale + shift);
        }
      }
    });
  });
}

/// Group by group, so that the sums of its channels stay on the stack; in strips of channels if there are many.
template <class T, class G>
void group_gradient(const KernelCall& call) {
  using C = Compute<T>;
  vectorized([groups = Groups(call, 1), epsilon = epsilon_of(call.attributes),
              dy = call.operands[0].as<T>().data(), x = call.operands[1].as<T>().data(),
              gamma = call.operands[2].as<G>().data(), dx = call.results[0].as<T>().data(),
              dgamma = call.results[1].as<G>().data(), dbeta = call.results[2].as<G>().data()] {
    const std::int64_t pixels = groups.pixels, n = groups.length * pixels;
    std::array<double, strip> gammas, betas;
    for (std::int64_t k = 0, width = 0; k < groups.count * groups.length; k += width) {
      const std::int64_t group = k / groups.length, start = k % groups.length;
      width = std::min(strip, groups.length - start);
      gammas.fill(0);
      betas.fill(0);
      for (std::int64_t b = 0; b < groups.batch; ++b) {
        const std::int64_t first = (b * groups.count + group) * n;
        const T *const g = dy + first, *const from = x + first;
        const Moments<C> m = moments_of<true>(from, n, epsilon);
        if (start == 0)
          gradient_row<true>(
              g, from,
              [own = gamma + group * groups.length, pixels](std::int64_t i) {
                return static_cast<C>(own[i / pixels]);
              },
              dx + first, n, m);
        for (std::int64_t c = 0; c < width; ++c) {
          const T *const d = g + (start + c) * pixels, *const v = from + (start + c) * pixels;
          gammas[static_cast<std::size_t>(c)] += fold<Sum>(pixels, [d, v, m](std::int64_t i) {
            return static_cast<C>(d[i]) * (static_cast<C>(v[i]) - m.mean) * m.scale;
          });
          betas[static_cast<std::size_t>(c)] +=
              fold<Sum>(pixels, [d](std::int64_t i) { return static_cast<C>(d[i]); });
        }
      }
      for (std::int64_t c = 0; c < width; ++c) {
        dgamma[k + c] = static_cast<G>(static_cast<C>(gammas[static_cast<std::size_t>(c)]));
        dbeta[k + c] = static_cast<G>(static_cast<C>(betas[static_cast<std::size_t>(c)]));
      }
    }
  });
}

void group_gradient_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    visit_weights<T>(call.operands[2].dtype,
                     [&]<class G>(std::type_identity<G>) { group_gradient<T, G>(call); });
  });
}

double flops(const Rule& rule) {  // some eight per element
  double n = 8;
  for (const LoopDim& l : rule.loops) n *= static_cast<double>(l.size);
  return n;
}

/// The gradient operator gives those of x, gamma and, where there is one, beta.
std::function<std::vector<ValueId>(Gradient&)> gradient_by(std::string name) {
  return [name = std::move(name)](Gradient& g) {
    return g.call_all(name, {g.dy(), g.in(0), g.in(1)}, g.attributes());
  };
}

}  // namespace

std::vector<OpDef> norms() {
  return {
      {
          .name = "layer_norm",
          .doc = "y = gamma (x - mean) / sqrt(variance + epsilon) + beta over the last dims, those of gamma",
          .attributes = {"epsilon"},
          .rule_for = last_rule<true>,
          .linear = "{1,2}",
          .infer = infer_last<true>,
          .flops = flops,
          .gradient = gradient_by("layer_norm_grad"),
          .kernel = last_kernel<true>,
          .samples = {"f32[4,6], f32[6], f32[6]", "f32[2,6,4], f32[4], f32[4] (epsilon=0.5)",
                      "f32[6,2,4], f32[2,4], f32[2,4]"},
          .overwrites = {0},
      },
      {
          .name = "layer_norm_grad",
          .doc = "gradients of layer_norm for x, gamma and beta",
          .attributes = {"epsilon"},
          .rule_for = last_gradient_rule<true>,
          .linear = "{0}",
          .infer = infer_last_gradient<true>,
          .flops = flops,
          .kernel = last_gradient_kernel<true>,
          .samples = {"f32[4,6], f32[4,6], f32[6]", "f32[2,6,4], f32[2,6,4], f32[4] (epsilon=0.5)",
                      "f32[6,2,4], f32[6,2,4], f32[2,4]"},
      },
      {
          .name = "rms_norm",
          .doc = "y = gamma x / sqrt(mean x^2 + epsilon) over the last dims, those of gamma",
          .attributes = {"epsilon"},
          .rule_for = last_rule<false>,
          .linear = "{1}",
          .infer = infer_last<false>,
          .flops = flops,
          .gradient = gradient_by("rms_norm_grad"),
          .expand = expand_rms_norm,
          .kernel = last_kernel<false>,
          .samples = {"f32[4,6], f32[6]", "f32[2,6,4], f32[4] (epsilon=0.5)", "f32[6,2,4], f32[2,4]"},
          .overwrites = {0},
      },
      {
          .name = "rms_norm_grad",
          .doc = "gradients of rms_norm for x and gamma",
          .attributes = {"epsilon"},
          .rule_for = last_gradient_rule<false>,
          .linear = "{0}",
          .infer = infer_last_gradient<false>,
          .flops = flops,
          .expand = expand_rms_norm_gradient,
          .kernel = last_gradient_kernel<false>,
          .samples = {"f32[4,6], f32[4,6], f32[6]", "f32[2,6,4], f32[2,6,4], f32[4] (epsilon=0.5)",
                      "f32[6,2,4], f32[6,2,4], f32[2,4]"},
      },
      {
          .name = "group_norm",
          .doc = "y = gamma (x - mean) / sqrt(variance + epsilon) + beta over each of `groups` groups of "
                 "channels",
          .attributes = {"epsilon", "groups"},
          .rule_for = group_rule,
          .linear = "{1,2}",
          .infer = infer_group,
          .flops = flops,
          .gradient = gradient_by("group_norm_grad"),
          .kernel = group_kernel,
          .samples = {"f32[6,4,3,2], f32[4], f32[4] (groups=2)", "f32[2,6,4], f32[6], f32[6] (groups=3)",
                      "f32[4,6], f32[6], f32[6] (epsilon=0.5)"},
          .overwrites = {0},
      },
      {
          .name = "group_norm_grad",
          .doc = "gradients of group_norm for x, gamma and beta",
          .attributes = {"epsilon", "groups"},
          .rule_for = group_gradient_rule,
          .linear = "{0}",
          .infer = infer_group_gradient,
          .flops = flops,
          .kernel = group_gradient_kernel,
          .samples = {"f32[6,4,3,2], f32[6,4,3,2], f32[4] (groups=2)",
                      "f32[2,6,4], f32[2,6,4], f32[6] (groups=3)",
                      "f32[4,6], f32[4,6], f32[6] (epsilon=0.5)"},
      },
  };
}

}  // namespace shardwright::ops
