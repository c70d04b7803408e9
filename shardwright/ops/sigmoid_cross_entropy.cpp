// Cross entropy of sigmoid(logit) and a target in [0, 1], element by element:
//
//   y = -target log s - (1 - target) log(1 - s) = log(1 + e^-|logit|) + (logit > 0) logit - logit target,
//   s = sigmoid(logit)
//
// in the form that no logit makes infinite, and in which what is left of a large logit that is right is not lost to
// rounding. Means and sums over it are left to the caller.

#include <cmath>

#include "shardwright/ops/elementwise.h"
#include "shardwright/ops/math.h"

namespace shardwright::ops {
namespace {

std::vector<ValueId> gradient(Gradient& g) {  // dlogit = dy (s - target), dtarget = -dy logit
  return {g.call("sigmoid_cross_entropy_grad", {g.dy(), g.in(0), g.in(1)}),
          g.call("neg", {g.call("mul", {g.dy(), g.in(0)})})};
}

}  // namespace

std::vector<OpDef> sigmoid_cross_entropy() {
  return {elementwise({.name = "sigmoid_cross_entropy",
                       .doc = "y = log(1 + e^logit) - logit target, element by element",
                       .gradient = gradient,
                       .block =
                           [](const Call& c) {
                             return floating_elements<2>(c, [](auto logit, auto target) {
                               const auto far = logit > 0 ? logit * (1 - target) : -logit * target;
                               return far + math::log1p(math::exp(-std::abs(logit)));
                             });
                           },
                       .samples = {"f32[4,6], f32[4,6]", "f32[12], f32[12]"},
                       .torch = {.line = "once(lambda x, t: torch.where(x > 0, x * (1 - t), -x * t) + "
                                         "torch.log1p(torch.exp(-x.abs())), {0}, {1})"},
                       .jax = {.line = "once(lambda x, t: jnp.where(x > 0, x * (1 - t), -x * t) + "
                                       "jnp.log1p(jnp.exp(-jnp.abs(x))), {0}, {1})"}},
                      2),
          elementwise({.name = "sigmoid_cross_entropy_grad",
                       .doc = "dlogit = dy (sigmoid(logit) - target)",
                       .linear = "{0}",
                       .block =
                           [](const Call& c) {
                             return floating_elements<3>(c, [](auto dy, auto logit, auto target) {
                               return dy * (math::sigmoid(logit) - target);
                             });
                           },
                       .samples = {"f32[4,6], f32[4,6], f32[4,6]"},
                       .torch = {.line = "once(lambda dy, x, t: dy * (torch.sigmoid(x) - t), {0}, {1}, {2})"},
                       .jax = {.line = "once(lambda dy, x, t: dy * (jax.nn.sigmoid(x) - t), {0}, {1}, {2})"}},
                      3)};
}

}  // namespace shardwright::ops
