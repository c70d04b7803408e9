// The optimizers as functions of Python: what their lines in PyTorch and JAX call.
#pragma once

#include <string_view>

namespace shardwright::ops {

inline constexpr std::string_view optimizers_in_torch = R"(
def updated(weight, states, step, master, guard):
    """The new weight and states by `step`; of a master, which is the last state; nothing changes where the guard is 0."""
    new = list(step(weight if master is None else master, *states))
    if master is not None:
        new = [new[0].to(weight.dtype)] + new[1:] + new[:1]
        states = list(states) + [master]
    if guard is not None:
        new = [torch.where(guard != 0, to, was) for to, was in zip(new, [weight] + list(states))]
    return tuple(new) if len(new) > 1 else new[0]


def as_number(x, like):
    return x.to(like.dtype) if torch.is_tensor(x) else x


def sgd(weight, gradient, rate, weight_decay, master=None, guard=None):
    def step(w):
        return (w - as_number(rate, gradient) * (gradient + weight_decay * w if weight_decay else gradient),)

    return updated(weight, [], step, master, guard)


def momentum(weight, gradient, state, rate, momentum, nesterov, weight_decay, master=None, guard=None):
    def step(w, m):
        d = gradient + weight_decay * w if weight_decay else gradient
        m = momentum * m + d
        return w - as_number(rate, m) * (d + momentum * m if nesterov else m), m

    return updated(weight, [state], step, master, guard)


def adam_step(count, rate, beta1, beta2, epsilon, plain_epsilon, gradient):
    """The step of moments: factor, 1 / sqrt(1 - beta2^t) and epsilon, as scalars on the device."""
    t = count.double() + 1
    root = 1 / torch.sqrt(1 - beta2**t)
    least = epsilon * root if plain_epsilon else epsilon
    return as_number(rate / (1 - beta1**t), gradient), as_number(root, gradient), as_number(least, gradient)


def adam(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, plain_epsilon, weight_decay, master=None,
         guard=None):
    factor, root, least = adam_step(count, rate, beta1, beta2, epsilon, plain_epsilon, gradient)

    def step(w, m, v):
        d = gradient + weight_decay * w if weight_decay else gradient
        m, v = beta1 * m + (1 - beta1) * d, beta2 * v + (1 - beta2) * d * d
        return w - factor * m / (torch.sqrt(v) * root + least), m, v

    return updated(weight, [moment1, moment2], step, master, guard)


def adamw(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, weight_decay, master=None, guard=None):
    factor, root, least = adam_step(count, rate, beta1, beta2, epsilon, False, gradient)

    def step(w, m, v):
        w = w * as_number(1 - rate * weight_decay, gradient)
        m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient * gradient
        return w - factor * m / (torch.sqrt(v) * root + least), m, v

    return updated(weight, [moment1, moment2], step, master, guard)
)";

inline constexpr std::string_view optimizers_in_jax = R"(
def updated(weight, states, step, master, guard):
    """The new weight and states by `step`; of a master, which is the last state; nothing changes where the guard is 0."""
    new = list(step(weight if master is None else master, *states))
    if master is not None:
        new = [new[0].astype(weight.dtype)] + new[1:] + new[:1]
        states = list(states) + [master]
    if guard is not None:
        new = [jnp.where(guard != 0, to, was) for to, was in zip(new, [weight] + list(states))]
    return tuple(new) if len(new) > 1 else new[0]


def as_number(x, like):
    return x.astype(like.dtype) if isinstance(x, jax.Array) else x


def sgd(weight, gradient, rate, weight_decay, master=None, guard=None):
    def step(w):
        return (w - as_number(rate, gradient) * (gradient + weight_decay * w if weight_decay else gradient),)

    return updated(weight, [], step, master, guard)


def momentum(weight, gradient, state, rate, momentum, nesterov, weight_decay, master=None, guard=None):
    def step(w, m):
        d = gradient + weight_decay * w if weight_decay else gradient
        m = momentum * m + d
        return w - as_number(rate, m) * (d + momentum * m if nesterov else m), m

    return updated(weight, [state], step, master, guard)


def adam_step(count, rate, beta1, beta2, epsilon, plain_epsilon, gradient):
    """The step of moments: factor, 1 / sqrt(1 - beta2^t) and epsilon, as scalars on the device."""
    t = count.astype(jnp.float64) + 1
    root = 1 / jnp.sqrt(1 - beta2**t)
    least = epsilon * root if plain_epsilon else epsilon
    return as_number(rate / (1 - beta1**t), gradient), as_number(root, gradient), as_number(least, gradient)


def adam(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, plain_epsilon, weight_decay, master=None,
         guard=None):
    factor, root, least = adam_step(count, rate, beta1, beta2, epsilon, plain_epsilon, gradient)

    def step(w, m, v):
        d = gradient + weight_decay * w if weight_decay else gradient
        m, v = beta1 * m + (1 - beta1) * d, beta2 * v + (1 - beta2) * d * d
        return w - factor * m / (jnp.sqrt(v) * root + least), m, v

    return updated(weight, [moment1, moment2], step, master, guard)


def adamw(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, weight_decay, master=None, guard=None):
    factor, root, least = adam_step(count, rate, beta1, beta2, epsilon, False, gradient)

    def step(w, m, v):
        w = w * as_number(1 - rate * weight_decay, gradient)
        m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient * gradient
        return w - factor * m / (jnp.sqrt(v) * root + least), m, v

    return updated(weight, [moment1, moment2], step, master, guard)
)";

}  // namespace shardwright::ops
