// Normalisation of groups of channels: y = gamma x^ + beta (ops/moments.h) over each of `groups` groups of channels
// (dim 1) with their pixels, which stay whole. The gradients of gamma and beta are partial over the axes that shard the
// batch.

#include <algorithm>
#include <array>

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/moments.h"

namespace shardwright::ops {
namespace {

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

constexpr const char* group_norm_in_jax = R"(
def group_norm(x, gamma, beta, groups, epsilon):
    v, each = wide(x).reshape(x.shape[0], groups, -1), (-1,) + (1,) * (x.ndim - 2)
    apart = v - v.mean(-1, keepdims=True)
    normal = (apart * lax.rsqrt((apart * apart).mean(-1, keepdims=True) + epsilon)).reshape(x.shape)
    return (normal * wide(gamma).reshape(each) + wide(beta).reshape(each)).astype(x.dtype)
)";

}  // namespace

std::vector<OpDef> group_norm() {
  return {
      {.name = "group_norm",
       .doc = "y = gamma (x - mean) / sqrt(variance + epsilon) + beta over each of `groups` groups of "
              "channels",
       .attributes = {"epsilon", "groups"},
       .defaults = {{"epsilon", 1e-5}, {"groups", std::int64_t{1}}},
       .rule_for = group_rule,
       .linear = "{1,2}",
       .infer = infer_group,
       .flops = normalization_flops,
       .gradient = gradient_by("group_norm_grad"),
       .kernel = group_kernel,
       .samples = {"f32[6,4,3,2], f32[4], f32[4] (groups=2)", "f32[2,6,4], f32[6], f32[6] (groups=3)",
                   "f32[4,6], f32[6], f32[6] (epsilon=0.5)"},
       .overwrites = {0},
       .torch = {.line = "group_norm({0}, {1}, {2}, {groups}, {epsilon})", .functions = R"(
def group_norm(x, gamma, beta, groups, epsilon):
    return F.group_norm(wide(x), groups, wide(gamma), wide(beta), epsilon).to(x.dtype)
)"},
       .jax = {.functions = group_norm_in_jax}},
      {.name = "group_norm_grad",
       .doc = "gradients of group_norm for x, gamma and beta",
       .attributes = {"epsilon", "groups"},
       .defaults = {{"epsilon", 1e-5}, {"groups", std::int64_t{1}}},
       .rule_for = group_gradient_rule,
       .linear = "{0}",
       .infer = infer_group_gradient,
       .flops = normalization_flops,
       .kernel = group_gradient_kernel,
       .samples = {"f32[6,4,3,2], f32[6,4,3,2], f32[4] (groups=2)",
                   "f32[2,6,4], f32[2,6,4], f32[6] (groups=3)", "f32[4,6], f32[4,6], f32[6] (epsilon=0.5)"},
       .torch = {.line = "group_norm_grad({0}, {1}, {2}, {groups}, {epsilon})", .functions = R"(
def group_norm_grad(dy, x, gamma, groups, epsilon):
    batch, channels = x.shape[:2]
    in_groups = (batch, groups, -1)
    v = wide(x).reshape(in_groups)
    mean = v.mean(-1, keepdim=True)
    scale = torch.rsqrt(v.var(-1, unbiased=False, keepdim=True) + epsilon)
    normal = (v - mean) * scale
    each = (channels,) + (1,) * (x.dim() - 2)
    dn = (wide(dy) * wide(gamma).reshape(each)).reshape(in_groups)
    dx = (dn - dn.mean(-1, keepdim=True) - normal * (dn * normal).mean(-1, keepdim=True)) * scale
    others = [0] + list(range(2, x.dim()))
    dgamma = (wide(dy) * normal.reshape(x.shape)).sum(others)
    return dx.reshape(x.shape).to(x.dtype), dgamma.to(gamma.dtype), wide(dy).sum(others).to(gamma.dtype)
)"},
       .jax = {.functions = std::string(group_norm_in_jax) + R"(
def group_norm_grad(dy, x, gamma, groups, epsilon):
    forward = lambda v, g, beta: group_norm(v, g, beta, groups, epsilon)
    return gradient(forward, dy, x, gamma, jnp.zeros_like(gamma))
)"}},
  };
}

}  // namespace shardwright::ops
