// Activations: gelu, silu, elu, softplus and the piecewise linear ones. Defined as in PyTorch, at the kinks too.

#include <cmath>
#include <numbers>

#include "shardwright/ops/elementwise.h"
#include "shardwright/ops/gelu.h"
#include "shardwright/ops/math.h"

namespace shardwright::ops {
namespace {

constexpr const char* gelu_in_jax = R"(
def gelu_form(name):
    if name == "sigmoid":
        return lambda x: x * jax.nn.sigmoid(1.702 * x)
    return lambda x: jax.nn.gelu(x, approximate=name == "tanh")
)";

// ---- gelu: y = x P(X <= x), X standard normal ----

constexpr auto gelu_exact = [](auto x) {
  using C = decltype(x);
  return x * C(0.5) * (C(1) + math::erf(x * (std::numbers::sqrt2_v<C> / 2)));
};

constexpr auto gelu_exact_derivative = [](auto x) {
  using C = decltype(x);
  const C density =
      math::exp(x * x * C(-0.5)) * (std::numbers::inv_sqrtpi_v<C> * std::numbers::sqrt2_v<C> / 2);
  return C(0.5) * (C(1) + math::erf(x * (std::numbers::sqrt2_v<C> / 2))) + x * density;
};

/// The sigmoid form ("fast gelu") takes P = sigmoid(1.702 x) (Hendrycks and Gimpel 2016).
constexpr auto gelu_sigmoid = [](auto x) {
  using C = decltype(x);
  return x * math::sigmoid(C(1.702) * x);
};

constexpr auto gelu_sigmoid_derivative = [](auto x) {
  using C = decltype(x);
  const C probability = math::sigmoid(C(1.702) * x);
  return probability * (C(1) + C(1.702) * x * (C(1) - probability));
};

enum class GeluForm { none, tanh, sigmoid };

GeluForm gelu_form(const Attributes& attributes) {
  const std::string form = attributes.text("approximate", "none");
  if (form == "none") return GeluForm::none;
  if (form == "tanh") return GeluForm::tanh;
  if (form == "sigmoid") return GeluForm::sigmoid;
  throw error("approximate={} is unknown; write none, tanh or sigmoid", form);
}

std::vector<OpDef> gelu() {
  auto ops =
      function("gelu", "y = x P(X <= x) for a standard normal X; approximate=tanh or sigmoid for those forms",
               gelu_exact, gelu_exact_derivative, ToldBy::x);
  for (OpDef& op : ops) {
    op.attributes = {"approximate"};
    op.defaults = {{"approximate", std::string("none")}};
    op.infer = [infer = op.infer](const Call& c) {
      gelu_form(c.attributes);
      return infer(c);
    };
    op.samples.push_back(op.samples[0] + " (approximate=tanh)");
    op.samples.push_back(op.samples[0] + " (approximate=sigmoid)");
  }
  ops[0].torch.line_for = [](const Call& c) {
    if (gelu_form(c.attributes) == GeluForm::sigmoid)
      return "once(lambda x: x * torch.sigmoid(1.702 * x), {0})";
    return "F.gelu({0}, approximate={approximate})";
  };
  ops[0].jax = {.line = "once(gelu_form({approximate}), {0})", .functions = gelu_in_jax};
  ops[1].torch = {.line_for =
                      [](const Call& c) {
                        return gelu_form(c.attributes) == GeluForm::sigmoid
                                   ? "gelu_sigmoid_grad({0}, {1})"
                                   : "aten.gelu_backward({0}, {1}, approximate={approximate})";
                      },
                  .functions = R"(
def gelu_sigmoid_grad(dy, x):
    v = wide(x)
    p = torch.sigmoid(1.702 * v)
    return (wide(dy) * p * (1 + 1.702 * v * (1 - p))).to(x.dtype)
)"};
  ops[1].jax = {.line = "gradient(gelu_form({approximate}), {0}, {1})", .functions = gelu_in_jax};
  ops[0].block = [](const Call& c) {
    switch (gelu_form(c.attributes)) {
      case GeluForm::tanh: return map(c, gelu_tanh);
      case GeluForm::sigmoid: return map(c, gelu_sigmoid);
      case GeluForm::none: break;
    }
    return map(c, gelu_exact);
  };
  ops[1].block = [](const Call& c) {
    switch (gelu_form(c.attributes)) {
      case GeluForm::tanh: return map_gradient(c, gelu_tanh_derivative);
      case GeluForm::sigmoid: return map_gradient(c, gelu_sigmoid_derivative);
      case GeluForm::none: break;
    }
    return map_gradient(c, gelu_exact_derivative);
  };
  return ops;
}

// ---- smooth ----

/// y = x s with s = sigmoid(x)
std::vector<OpDef> silu() {
  return in_python(function(
                       "silu", "y = x / (1 + e^-x)", [](auto x) { return x * math::sigmoid(x); },
                       [](auto x) {
                         const auto s = math::sigmoid(x);
                         return s * (1 + x * (1 - s));
                       },
                       ToldBy::x),
                   {"F.silu({0})", "aten.silu_backward({0}, {1})"},
                   {"once(jax.nn.silu, {0})", "gradient(jax.nn.silu, {0}, {1})"});
}

std::vector<OpDef> softplus() {
  return in_python(function(
                       "softplus", "y = log(1 + e^x)", [](auto x) { return math::softplus(x); },
                       [](auto x) { return math::sigmoid(x); }, ToldBy::x),
                   {"once(lambda x: torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs())), {0})",
                    "once(lambda dy, x: dy * torch.sigmoid(x), {0}, {1})"},
                   {"once(jax.nn.softplus, {0})", "once(lambda dy, x: dy * jax.nn.sigmoid(x), {0}, {1})"});
}

std::vector<OpDef> elu() {
  const auto alpha = [](const Attributes& a) { return a.number("alpha", 1); };
  std::vector<OpDef> ops = function_with(
      "elu", "y = x where x > 0, else alpha (e^x - 1); alpha is 1 if not given", {"alpha"},
      [alpha](const Attributes& a) {
        return [k = alpha(a)](auto x) {
          const auto below = static_cast<decltype(x)>(k) * math::expm1(x);
          return x > 0 ? x : below;
        };
      },
      [alpha](const Attributes& a) {
        return [k = alpha(a)](auto x) {
          using C = decltype(x);
          const C below = static_cast<C>(k) * math::exp(x);
          return x > 0 ? C(1) : below;
        };
      },
      ToldBy::x, {"f32[4,6]!=0", "f32[2,6,4] (alpha=0.5)"});
  for (OpDef& op : ops) op.defaults = {{"alpha", 1.0}};
  return in_python(std::move(ops),
                   {"F.elu({0}, {alpha})",
                    "once(lambda dy, x: torch.where(x > 0, dy, dy * {alpha} * torch.exp(x)), {0}, {1})"},
                   {"once(lambda x: jax.nn.elu(x, {alpha}), {0})",
                    "once(lambda dy, x: jnp.where(x > 0, dy, dy * {alpha} * jnp.exp(x)), {0}, {1})"});
}

// ---- piecewise linear ----

std::vector<OpDef> leaky_relu() {
  const auto slope = [](const Attributes& a) { return a.number("slope", 0.01); };
  std::vector<OpDef> ops = function_with(
      "leaky_relu", "y = x where x > 0, else slope x; slope is 0.01 if not given", {"slope"},
      [slope](const Attributes& a) {
        return [k = slope(a)](auto x) { return x > 0 ? x : x * static_cast<decltype(x)>(k); };
      },
      [slope](const Attributes& a) {
        return [k = slope(a)](auto x) { return static_cast<decltype(x)>(x > 0 ? 1 : k); };
      },
      ToldBy::x, {"f32[4,6]!=0", "f32[2,6,4]!=0 (slope=0.25)"});
  for (OpDef& op : ops) op.defaults = {{"slope", 0.01}};
  return in_python(std::move(ops), {"F.leaky_relu({0}, {slope})", "torch.where({1} > 0, {0}, {0} * {slope})"},
                   {"jnp.where({0} > 0, {0}, {0} * {slope})", "jnp.where({1} > 0, {0}, {0} * {slope})"});
}

/// Where the line is neither 0 nor 1, so that y tells the derivative.
std::vector<OpDef> hard_sigmoid() {
  const auto slope = [](const Attributes& a) { return a.number("slope", 1.0 / 6); };
  std::vector<OpDef> ops = function_with(
      "hard_sigmoid",
      "y = slope x + shift, cut off below 0 and above 1; slope 1/6 and shift 0.5 if not given",
      {"shift", "slope"},
      [slope](const Attributes& a) {
        return [k = slope(a), b = a.number("shift", 0.5)](auto x) {
          using C = decltype(x);
          const C y = static_cast<C>(k) * x + static_cast<C>(b);
          const C from_below = y < 0 ? C(0) : y;
          return from_below > 1 ? C(1) : from_below;
        };
      },
      [slope](const Attributes& a) {
        return [k = slope(a)](auto y) {
          using C = decltype(y);
          return (y > 0) & (y < 1) ? static_cast<C>(k) : C(0);
        };
      },
      ToldBy::y, {"f32[4,6]", "f32[2,6,4] (slope=0.75, shift=0.4)"});
  for (OpDef& op : ops) op.defaults = {{"shift", 0.5}, {"slope", 1.0 / 6}};
  return in_python(std::move(ops),
                   {"once(lambda x: torch.clamp({slope} * x + {shift}, 0, 1), {0})",
                    "once(lambda dy, y: dy * {slope} * ((y > 0) & (y < 1)), {0}, {1})"},
                   {"once(lambda x: jnp.clip({slope} * x + {shift}, 0, 1), {0})", {}});
}

std::vector<OpDef> hard_swish() {
  std::vector<OpDef> ops = function(
      "hard_swish", "y = x min(max(x + 3, 0), 6) / 6",
      [](auto x) {
        using C = decltype(x);
        const C from_below = x + 3 < 0 ? C(0) : x + 3;
        return x * (from_below > 6 ? C(6) : from_below) / 6;
      },
      [](auto x) {
        using C = decltype(x);
        const C below_three = x < -3 ? C(0) : x / 3 + C(0.5);
        return x >= 3 ? C(1) : below_three;
      },
      ToldBy::x);
  return in_python(
      std::move(ops),
      {"once(lambda x: x * torch.clamp(x + 3, 0, 6) / 6, {0})",
       "once(lambda dy, x: dy * ((x >= -3) & (x < 3)) * (x / 3 + 0.5) + dy * (x >= 3), {0}, {1})"},
      {"once(lambda x: x * jnp.clip(x + 3, 0, 6) / 6, {0})", {}});
}

}  // namespace

std::vector<OpDef> activations() {
  std::vector<OpDef> all;
  for (auto family : {gelu, silu, softplus, elu, leaky_relu, hard_sigmoid, hard_swish})
    for (OpDef& op : family()) all.push_back(std::move(op));
  return all;
}

}  // namespace shardwright::ops
