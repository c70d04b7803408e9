// Normalisation of the last dims, as many as gamma has: layer_norm and rms_norm (ops/moments.h), each with one gradient
// operator.
//
// rms_norm takes the mean for 0 and has no beta. What is normalised together stays whole; the gradients of gamma and beta
// are partial over the axes that shard the other dims.

#include <algorithm>
#include <array>

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/moments.h"

namespace shardwright::ops {
namespace {

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

constexpr const char* layer_norm_in_jax = R"(
def layer_norm(x, gamma, beta, epsilon):
    v, dims = wide(x), tuple(range(-gamma.ndim, 0))
    apart = v - v.mean(dims, keepdims=True)
    normal = apart * lax.rsqrt((apart * apart).mean(dims, keepdims=True) + epsilon)
    return (normal * wide(gamma) + wide(beta)).astype(x.dtype)
)";

constexpr const char* rms_norm_in_jax = R"(
def rms_norm(x, gamma, epsilon):
    v, dims = wide(x), tuple(range(-gamma.ndim, 0))
    return (v * lax.rsqrt((v * v).mean(dims, keepdims=True) + epsilon) * wide(gamma)).astype(x.dtype)
)";

}  // namespace

std::vector<OpDef> norms() {
  return {
      {.name = "layer_norm",
       .doc = "y = gamma (x - mean) / sqrt(variance + epsilon) + beta over the last dims, those of gamma",
       .attributes = {"epsilon"},
       .defaults = {{"epsilon", 1e-5}},
       .rule_for = last_rule<true>,
       .linear = "{1,2}",
       .infer = infer_last<true>,
       .flops = normalization_flops,
       .gradient = gradient_by("layer_norm_grad"),
       .kernel = last_kernel<true>,
       .samples = {"f32[4,6], f32[6], f32[6]", "f32[2,6,4], f32[4], f32[4] (epsilon=0.5)",
                   "f32[6,2,4], f32[2,4], f32[2,4]"},
       .overwrites = {0},
       .torch = {.line = "layer_norm({0}, {1}, {2}, {epsilon})", .functions = R"(
def layer_norm(x, gamma, beta, epsilon):
    if gamma.dtype == x.dtype:
        return F.layer_norm(x, gamma.shape, gamma, beta, epsilon)
    return F.layer_norm(wide(x), gamma.shape, wide(gamma), wide(beta), epsilon).to(x.dtype)
)"},
       .jax = {.functions = layer_norm_in_jax}},
      {.name = "layer_norm_grad",
       .doc = "gradients of layer_norm for x, gamma and beta",
       .attributes = {"epsilon"},
       .defaults = {{"epsilon", 1e-5}},
       .rule_for = last_gradient_rule<true>,
       .linear = "{0}",
       .infer = infer_last_gradient<true>,
       .flops = normalization_flops,
       .kernel = last_gradient_kernel<true>,
       .samples = {"f32[4,6], f32[4,6], f32[6]", "f32[2,6,4], f32[2,6,4], f32[4] (epsilon=0.5)",
                   "f32[6,2,4], f32[6,2,4], f32[2,4]"},
       .torch = {.line = "layer_norm_grad({0}, {1}, {2}, {epsilon})", .functions = R"(
def layer_norm_grad(dy, x, gamma, epsilon):
    v, g = wide(x), wide(gamma)
    _, mean, scale = aten.native_layer_norm(v, gamma.shape, None, None, epsilon)
    dx, dgamma, dbeta = aten.native_layer_norm_backward(
        wide(dy), v, gamma.shape, mean, scale, g, g, [True, True, True])
    return dx.to(x.dtype), dgamma.to(gamma.dtype), dbeta.to(gamma.dtype)
)"},
       .jax = {.functions = std::string(layer_norm_in_jax) + R"(
def layer_norm_grad(dy, x, gamma, epsilon):
    forward = lambda v, g, beta: layer_norm(v, g, beta, epsilon)
    return gradient(forward, dy, x, gamma, jnp.zeros_like(gamma))
)"}},
      {.name = "rms_norm",
       .doc = "y = gamma x / sqrt(mean x^2 + epsilon) over the last dims, those of gamma",
       .attributes = {"epsilon"},
       .defaults = {{"epsilon", 1e-5}},
       .rule_for = last_rule<false>,
       .linear = "{1}",
       .infer = infer_last<false>,
       .flops = normalization_flops,
       .gradient = gradient_by("rms_norm_grad"),
       .expand = expand_rms_norm,
       .kernel = last_kernel<false>,
       .samples = {"f32[4,6], f32[6]", "f32[2,6,4], f32[4] (epsilon=0.5)", "f32[6,2,4], f32[2,4]"},
       .overwrites = {0},
       .torch = {.line = "rms_norm({0}, {1}, {epsilon})", .functions = R"(
def rms_norm(x, gamma, epsilon):
    v, dims = wide(x), list(range(-gamma.dim(), 0))
    return (v * torch.rsqrt((v * v).mean(dims, keepdim=True) + epsilon) * wide(gamma)).to(x.dtype)
)"},
       .jax = {.functions = rms_norm_in_jax}},
      {.name = "rms_norm_grad",
       .doc = "gradients of rms_norm for x and gamma",
       .attributes = {"epsilon"},
       .defaults = {{"epsilon", 1e-5}},
       .rule_for = last_gradient_rule<false>,
       .linear = "{0}",
       .infer = infer_last_gradient<false>,
       .flops = normalization_flops,
       .expand = expand_rms_norm_gradient,
       .kernel = last_gradient_kernel<false>,
       .samples = {"f32[4,6], f32[4,6], f32[6]", "f32[2,6,4], f32[2,6,4], f32[4] (epsilon=0.5)",
                   "f32[6,2,4], f32[6,2,4], f32[2,4]"},
       .torch = {.line = "rms_norm_grad({0}, {1}, {2}, {epsilon})", .functions = R"(
def rms_norm_grad(dy, x, gamma, epsilon):
    d, v, dims = wide(dy), wide(x), list(range(-gamma.dim(), 0))
    scale = torch.rsqrt((v * v).mean(dims, keepdim=True) + epsilon)
    normal, dn = v * scale, d * wide(gamma)
    dx = (dn - normal * (dn * normal).mean(dims, keepdim=True)) * scale
    return dx.to(x.dtype), (d * normal).sum(list(range(x.dim() - gamma.dim()))).to(gamma.dtype)
)"},
       .jax = {.functions = std::string(rms_norm_in_jax) + R"(
def rms_norm_grad(dy, x, gamma, epsilon):
    return gradient(lambda v, g: rms_norm(v, g, epsilon), dy, x, gamma)
)"}},
  };
}

}  // namespace shardwright::ops
