// What the kernels of a batch norm, here and in backends, must agree on.
#pragma once

#include <algorithm>

#include "shardwright/graph/op.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {

/// Added to the variance if attribute `epsilon` is not given.
constexpr double batch_norm_epsilon = 1e-5;

/// Operand `operand` is as long as x has channels.
inline void check_channels(const Call& call, std::size_t operand, const Type& x, bool is_moments = false) {
  const std::int64_t channels = x.shape.at(1);
  const Type& t = call.operands[operand];
  check_floating(t.dtype);
  if (t.shape != (is_moments ? Shape{2, channels} : Shape{channels}))
    throw error("operand {} is {} but {} has {} channels", operand, to_text(t), to_text(x), channels);
}

/// How many elements of the whole batch there are per channel.
inline double batch_norm_count(const KernelCall& call) {
  double count = 1;
  for (std::size_t l = 0; l < call.rule.loops.size(); ++l)
    if (call.rule.loops[l].name.front() == 'i') count *= static_cast<double>(call.box.loops[l].size);
  return count;
}

/// In PyTorch: all of them, moments being [2, channels] of f64.
inline constexpr const char* batch_norm_in_torch = R"(
def of_channels(like, *numbers):
    """Numbers of each channel, to be used with `like`."""
    once = computed_once(*[x.to(wide(like).dtype) for x in numbers])
    return [x.reshape((-1,) + (1,) * (like.dim() - 2)) for x in once]


def mean_and_variance(moments):
    mean, square = moments.unbind()
    return mean, torch.addcmul(square, mean, mean, value=-1).clamp_(min=0)


def mean_and_scale(moments, epsilon):
    mean, variance = mean_and_variance(moments)
    return mean, torch.rsqrt(variance + epsilon)


def batch_moments(x, count):
    """This rank's addends of the means, whose count is of all ranks."""
    if x.numel() == 0:
        return torch.zeros([2, x.shape[1]], dtype=torch.float64, device=x.device)
    mean, variance = torch.stack(aten.batch_norm_update_stats(wide(x), None, None, 0.0)).double()
    share = x.numel() // x.shape[1] / count
    return torch.stack([mean, torch.addcmul(variance, mean, mean)]) * share


def batch_norm(x, gamma, beta, moments, epsilon):
    if is_compiling():  # then with what stands around it
        mean, scale = mean_and_scale(moments, epsilon)
        factor = gamma.double() * scale
        factor, shift = of_channels(x, factor, beta.double() - mean * factor)
        return (wide(x) * factor + shift).to(x.dtype)
    v, (mean, variance) = wide(x), mean_and_variance(moments)
    weights = [w.to(v.dtype) for w in (mean, variance, gamma, beta)]
    return F.batch_norm(v, *weights, training=False, eps=epsilon).to(x.dtype)


def batch_norm_weights_grad(dy, x, moments, epsilon):
    v, (mean, scale) = wide(x), mean_and_scale(moments, epsilon)
    mean, scale = mean.to(v.dtype), scale.to(v.dtype)
    return aten.native_batch_norm_backward(wide(dy), v, scale, None, None, mean, scale, True, epsilon, [False, True, True])[1:]


def batch_norm_grad(dy, x, gamma, moments, dgamma, dbeta, count, epsilon):
    """dy factor + x slope + shift, of each channel."""
    mean, scale = mean_and_scale(moments, epsilon)
    factor = gamma.double() * scale
    slope = -dgamma.double() * scale / count * factor
    shift = -mean * slope - dbeta.double() / count * factor
    shift, slope, factor = of_channels(x, shift, slope, factor)
    return torch.addcmul(shift, wide(x), slope).addcmul_(wide(dy), factor).to(x.dtype)


def running_moments(mean, variance, moments, count, momentum):
    mixed = lambda old, new, share: torch.add(new * share, old, alpha=1 - momentum).to(old.dtype)
    of_batch, spread = mean_and_variance(moments)
    return mixed(mean, of_batch, momentum), mixed(variance, spread, momentum * count / max(count - 1, 1))
)";

inline constexpr const char* batch_norm_in_jax = R"(
def of_channels(x, like):
    """A number of each channel, to be used with `like`."""
    return x.astype(wide(like).dtype).reshape((-1,) + (1,) * (like.ndim - 2))


def but_channels(x):
    return (0, *range(2, x.ndim))


def double(x):
    return x.astype(jnp.float64)


def mean_and_scale(moments, epsilon):
    variance = jnp.maximum(moments[1] - moments[0] ** 2, 0)
    return moments[0], 1 / jnp.sqrt(variance + epsilon)


def batch_moments(x, count):
    v, dims = wide(x), but_channels(x)
    return jnp.stack([v.sum(dims, dtype=jnp.float64), (v * v).sum(dims, dtype=jnp.float64)]) / count


def batch_norm(x, gamma, beta, moments, epsilon):
    mean, scale = mean_and_scale(moments, epsilon)
    scale = of_channels(scale * double(gamma), x)
    return ((wide(x) - of_channels(mean, x)) * scale + of_channels(beta, x)).astype(x.dtype)


def batch_norm_weights_grad(dy, x, moments, epsilon):
    mean, scale = mean_and_scale(moments, epsilon)
    d, dims = wide(dy), but_channels(x)
    return (d * (wide(x) - of_channels(mean, x))).sum(dims) * scale.astype(d.dtype), d.sum(dims)


def batch_norm_grad(dy, x, gamma, moments, dgamma, dbeta, count, epsilon):
    mean, scale = mean_and_scale(moments, epsilon)
    normal = (wide(x) - of_channels(mean, x)) * of_channels(double(dgamma) * scale / count, x)
    dx = wide(dy) - of_channels(double(dbeta) / count, x) - normal
    return (dx * of_channels(double(gamma) * scale, x)).astype(x.dtype)


def running_moments(mean, variance, moments, count, momentum):
    of_batch = jnp.maximum(moments[1] - moments[0] ** 2, 0) * count / max(count - 1, 1)
    mixed = lambda old, new: ((1 - momentum) * double(old) + momentum * new).astype(old.dtype)
    return mixed(mean, moments[0]), mixed(variance, of_batch)
)";

}  // namespace shardwright::ops
