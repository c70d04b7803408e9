// The optimizers as functions of Python: what their lines in PyTorch and JAX call. Formulas stand once; what an engine does
// in its own way stands before them.
#pragma once

#include <string>
#include <string_view>

namespace shardwright::ops {

inline constexpr std::string_view optimizer_formulas = R"(
def updated(weight, states, step, master, guard):
    """The new weight and states by `step`; of a master, which is the last state; nothing changes where the guard is 0."""
    new = list(step(weight if master is None else master, *states))
    if master is not None:
        new = [as_type(new[0], weight.dtype)] + new[1:] + new[:1]
        states = list(states) + [master]
    if guard is not None:
        new = [where(guard != 0, to, was) for to, was in zip(new, [weight] + list(states))]
    return tuple(new) if len(new) > 1 else new[0]


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
    t = as_double(count) + 1
    factor, root = computed_once(rate / (1 - beta1**t), 1 / square_root(1 - beta2**t))
    least = epsilon * root if plain_epsilon else epsilon
    return as_number(factor, gradient), as_number(root, gradient), as_number(least, gradient)


def adam(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, plain_epsilon, weight_decay, master=None,
         guard=None):
    factor, root, least = adam_step(count, rate, beta1, beta2, epsilon, plain_epsilon, gradient)

    def step(w, m, v):
        d = gradient + weight_decay * w if weight_decay else gradient
        m, v = beta1 * m + (1 - beta1) * d, beta2 * v + (1 - beta2) * d * d
        return w - factor * m / (square_root(v) * root + least), m, v

    return updated(weight, [moment1, moment2], step, master, guard)


def adagrad(weight, gradient, state, rate, epsilon, weight_decay, master=None, guard=None):
    def step(w, s):
        d = gradient + weight_decay * w if weight_decay else gradient
        s = s + d * d
        return w - as_number(rate, s) * d / (square_root(s) + epsilon), s

    return updated(weight, [state], step, master, guard)


def lazy_adam(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, master=None, guard=None):
    return adam(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, True, 0, master, guard)


def adamw(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, weight_decay, master=None, guard=None):
    factor, root, least = adam_step(count, rate, beta1, beta2, epsilon, False, gradient)

    def step(w, m, v):
        w = w * as_number(1 - rate * weight_decay, gradient)
        m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient * gradient
        return w - factor * m / (square_root(v) * root + least), m, v

    return updated(weight, [moment1, moment2], step, master, guard)
)";

/// `NAME_in_place` writes new values over the old ones, in PyTorch's own kernel of one pass where it has that: newer versions,
/// one type, nothing that may forbid the update. What is compiled becomes one pass by itself.
inline constexpr std::string_view optimizers_in_torch = R"(
def as_type(x, dtype):
    return x.to(dtype)


def where(condition, x, y):
    return torch.where(condition, x, y)


def as_number(x, like):
    return as_type(x, like.dtype) if torch.is_tensor(x) else x


def as_double(x):
    return x.double()


def square_root(x):
    return torch.sqrt(x)


def in_place(weight, states, master, guard, gradient, kernel, run, by_formula):
    """New values where the old ones are: by `run` of PyTorch's own kernel of that name, which asks for no strides, or by formula."""
    held = [weight, *states] if master is None else [weight, *states, master]
    own = weight if master is None else master
    kernel = None if guard is not None or is_compiling() or kernel is None else own_kernel(kernel, own.device.type)
    if kernel is not None and gradient.dtype == own.dtype and all(is_like(own, x) for x in states):
        run(kernel if together_now is None else together_now.kernel(kernel), own, ordered_as(own, gradient))
        if master is not None:
            then_copied(weight, master)
    else:
        new = by_formula()
        for was, to in zip(held, new if isinstance(new, tuple) else (new,)):
            was.copy_(to)
    return tuple(held) if len(held) > 1 else held[0]


together_now = None  # the updates that wait to be one call


class Together:
    """Calls of one kernel with the same settings, as one: its launches are most of what small weights take."""
    def __init__(self):
        self.run, self.lists, self.settings, self.copies, self.step = None, [], {}, [], None

    def kernel(self, run):
        def noted(*lists, **settings):
            self.run, self.settings = run, settings
            self.lists = [a + b for a, b in zip(self.lists, lists)] if self.lists else lists
        return noted

    def end(self):
        if self.run is not None:
            self.run(*self.lists, **self.settings)
        for weight, master in self.copies:
            weight.copy_(master)


def together(update, calls):
    """`update` of each: results one behind the other."""
    global together_now
    if is_compiling():
        return one_behind_the_other([update(*call) for call in calls])
    together_now = Together()
    try:
        out = one_behind_the_other([update(*call) for call in calls])
        together_now.end()
        return out
    finally:
        together_now = None


def one_behind_the_other(results):
    return tuple(x for one in results for x in (one if isinstance(one, tuple) else (one,)))


def then_copied(weight, master):
    if together_now is None:
        weight.copy_(master)
    else:
        together_now.copies.append((weight, master))


def step_after(count):
    """The number of the step that is done, which updates of one call share."""
    if together_now is None:
        return count.float() + 1
    if together_now.step is None:
        together_now.step = count.float() + 1
    return together_now.step


def is_like(weight, state):
    """Of the same type, and both fill their memory in one order."""
    return state.dtype == weight.dtype and state.stride() == weight.stride() and bool(orders(weight))


def orders(x):
    """In which x may lie: row-major, by pixels."""
    by = [torch.contiguous_format] + [torch.channels_last] * (x.dim() == 4)
    return {order for order in by if x.is_contiguous(memory_format=order)}


def ordered_as(weight, gradient):
    """The gradient, its elements in memory in the order of the weight's."""
    if gradient.stride() == weight.stride():
        return gradient
    if orders(gradient) & orders(weight):  # a dim of one may have any stride
        return gradient.as_strided(weight.shape, weight.stride())
    return torch.empty_like(weight).copy_(gradient)


def rate_for(rate, x):
    return rate.float() if torch.is_tensor(rate) and x.is_cuda else rate


def sgd_in_place(weight, gradient, rate, weight_decay, master=None, guard=None):
    def run(kernel, w, g):
        kernel([w], [g], [], weight_decay=weight_decay, momentum=0.0, lr=rate_for(rate, w), dampening=0.0,
               nesterov=False, maximize=False, is_first_step=False)

    return in_place(weight, [], master, guard, gradient, "_fused_sgd_", run,
                    lambda: sgd(weight, gradient, rate, weight_decay, master, guard))


def by_momentum(*call):
    """The function, where a number has its name."""
    return momentum(*call)


def momentum_in_place(weight, gradient, state, rate, momentum, nesterov, weight_decay, master=None, guard=None):
    def run(kernel, w, g):
        kernel([w], [g], [state], weight_decay=weight_decay, momentum=momentum, lr=rate_for(rate, w), dampening=0.0,
               nesterov=nesterov, maximize=False, is_first_step=False)

    return in_place(weight, [state], master, guard, gradient, "_fused_sgd_", run, lambda: by_momentum(
        weight, gradient, state, rate, momentum, nesterov, weight_decay, master, guard))


def moments_in_place(kernel, by_formula, weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, weight_decay,
                     master, guard):
    def run(fused, w, g):
        fused([w], [g], [moment1], [moment2], [], [step_after(count)], lr=rate_for(rate, w), beta1=beta1, beta2=beta2,
              weight_decay=weight_decay, eps=epsilon, amsgrad=False, maximize=False)

    return in_place(weight, [moment1, moment2], master, guard, gradient, kernel, run, by_formula)


def adam_in_place(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, plain_epsilon, weight_decay,
                  master=None, guard=None):
    def by_formula():
        return adam(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, plain_epsilon, weight_decay,
                    master, guard)

    kernel = None if plain_epsilon else "_fused_adam_"
    return moments_in_place(kernel, by_formula, weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon,
                            weight_decay, master, guard)


def adagrad_in_place(weight, gradient, state, rate, epsilon, weight_decay, master=None, guard=None):
    return in_place(weight, [state], master, guard, gradient, None, None,
                    lambda: adagrad(weight, gradient, state, rate, epsilon, weight_decay, master, guard))


def lazy_adam_in_place(weight, gradient, moment1, moment2, *call, master=None, guard=None, **settings):
    return in_place(weight, [moment1, moment2], master, guard, gradient, None, None,
                    lambda: lazy_adam(weight, gradient, moment1, moment2, *call, **settings, master=master, guard=guard))


def adamw_in_place(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, weight_decay, master=None,
                   guard=None):
    def by_formula():
        return adamw(weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon, weight_decay, master, guard)

    return moments_in_place("_fused_adamw_", by_formula, weight, gradient, moment1, moment2, count, rate, beta1, beta2, epsilon,
                            weight_decay, master, guard)
)";

inline constexpr std::string_view optimizers_in_jax = R"(
def as_type(x, dtype):
    return x.astype(dtype)


def where(condition, x, y):
    return jnp.where(condition, x, y)


def as_number(x, like):
    return as_type(x, like.dtype) if isinstance(x, jax.Array) else x


def as_double(x):
    return x.astype(jnp.float64)


def square_root(x):
    return jnp.sqrt(x)


def computed_once(*scalars):
    return scalars
)";

}  // namespace shardwright::ops
