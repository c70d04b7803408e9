// Element-wise functions of one operand. Each is one row: its value, and its derivative told by x or by y.

#include <cmath>
#include <limits>
#include <numbers>

#include "shardwright/ops/elementwise.h"
#include "shardwright/ops/math.h"

namespace shardwright::ops {
namespace {

// ---- functions whose gradient is an operator that there is already ----

std::vector<ValueId> square_gradient(Gradient& g) {  // dx = 2 dy x
  return {g.call("scale", {g.call("mul", {g.dy(), g.in(0)})}, {{"factor", 2.0}})};
}

std::vector<OpDef> plain_functions() {
  using Values = std::vector<ValueId>;
  const auto scale_block = [](const Call& c) {
    return map(c, [f = c.attributes.number("factor", 1)](auto x) { return x * static_cast<decltype(x)>(f); });
  };
  const auto shift_block = [](const Call& c) {
    return map(c, [v = c.attributes.number("value", 0)](auto x) { return x + static_cast<decltype(x)>(v); });
  };
  return {
      elementwise({.name = "exp",
                   .doc = "y = e^x",
                   .gradient =
                       [](Gradient& g) {
                         return Values{g.call("mul", {g.dy(), g.out()})};
                       },
                   .block = [](const Call& c) { return map(c, [](auto x) { return math::exp(x); }); },
                   .samples = {"f32[4,6]"},
                   .torch = {.line = "torch.exp({0})"},
                   .jax = {.line = "jnp.exp({0})"}},
                  1),
      elementwise({.name = "log",
                   .doc = "y = natural logarithm of x",
                   .gradient =
                       [](Gradient& g) {
                         return Values{g.call("div", {g.dy(), g.in(0)})};
                       },
                   .block = [](const Call& c) { return map(c, [](auto x) { return math::log(x); }); },
                   .samples = {"f32[4,6]>0"},
                   .torch = {.line = "torch.log({0})"},
                   .jax = {.line = "jnp.log({0})"}},
                  1),
      elementwise({.name = "neg",
                   .doc = "y = -x",
                   .linear = "{0}",
                   .gradient = [](Gradient& g) { return Values{g.call("neg", {g.dy()})}; },
                   .block = [](const Call& c) { return map(c, [](auto x) { return -x; }); },
                   .samples = {"f32[4,6]"},
                   .torch = {.line = "-{0}"}},
                  1),
      elementwise({.name = "square",
                   .doc = "y = x^2",
                   .gradient = square_gradient,
                   .block = [](const Call& c) { return map(c, [](auto x) { return x * x; }); },
                   .samples = {"f32[4,6]"},
                   .torch = {.line = "{0} * {0}"}},
                  1),
      elementwise({.name = "scale",
                   .doc = "y = factor x",
                   .attributes = {"factor"},
                   .defaults = {{"factor", 1.0}},
                   .linear = "{0}",
                   .gradient = [](Gradient& g) { return Values{g.call("scale", {g.dy()}, g.attributes())}; },
                   .block = scale_block,
                   .samples = {"f32[4,6] (factor=0.5)"},
                   .torch = {.line = "{0} * {factor}"}},
                  1),
      elementwise({.name = "shift",
                   .doc = "y = x + value",
                   .attributes = {"value"},
                   .defaults = {{"value", 0.0}},
                   .gradient = [](Gradient& g) { return Values{g.dy()}; },
                   .block = shift_block,
                   .samples = {"f32[4,6] (value=2.5)"},
                   .torch = {.line = "{0} + {value}"}},
                  1),
  };
}

/// A step function: its derivative is 0 wherever there is one.
template <class F>
OpDef steps(std::string name, std::string doc, F f) {
  std::string line = "torch." + name + "({0})", in_jax = "jnp." + name + "({0})";
  return elementwise({.name = std::move(name),
                      .doc = std::move(doc),
                      .gradient = [](Gradient&) { return std::vector<ValueId>{ValueId{}}; },
                      .block = [f](const Call& c) { return map(c, f); },
                      .samples = {"f32[4,6]"},
                      .torch = {.line = std::move(line)},
                      .jax = {.line = std::move(in_jax)}},
                     1);
}

// ---- functions with attributes ----

/// x^p; x and x^2, the factors of x^2 and x^3 and of their derivatives, without logarithms.
template <class C>
C to_the(C x, double p) {
  return p == 1 ? x : p == 2 ? x * x : static_cast<C>(std::pow(x, static_cast<C>(p)));
}

std::vector<OpDef> power() {
  const auto exponent = [](const Attributes& a) { return a.number("exponent", 1); };
  std::vector<OpDef> ops = function_with(
      "power", "y = x^exponent, a constant", {"exponent"},
      [exponent](const Attributes& a) {
        return [p = exponent(a)](auto x) { return p == 3 ? x * x * x : to_the(x, p); };
      },
      [exponent](const Attributes& a) {
        return [p = exponent(a)](auto x) { return static_cast<decltype(x)>(p) * to_the(x, p - 1); };
      },
      ToldBy::x, {"f32[4,6] (exponent=3)", "f32[2,6,4]>0 (exponent=-1.5)"});
  for (OpDef& op : ops) op.defaults = {{"exponent", 1.0}};
  return in_python(
      std::move(ops),
      {"{0} ** {exponent}", "once(lambda dy, x: dy * {exponent} * x ** ({exponent} - 1), {0}, {1})"},
      {{}, {}});
}

struct Limits {
  double min, max;
  explicit Limits(const Attributes& a)
      : min(a.number("min", -std::numeric_limits<double>::infinity())),
        max(a.number("max", std::numeric_limits<double>::infinity())) {
    if (min > max) throw error("min={} is above max={}", min, max);
  }
};

/// The gradient flows where x is between the limits or on one.
std::vector<OpDef> clip() {
  auto ops = function_with(
      "clip", "y = x, but at least min and at most max; either may be missing", {"max", "min"},
      [](const Attributes& a) {
        return [limits = Limits(a)](auto x) {
          using C = decltype(x);
          const auto least = static_cast<C>(limits.min), most = static_cast<C>(limits.max);
          const C from_below = x < least ? least : x;
          return from_below > most ? most : from_below;
        };
      },
      [](const Attributes& a) {
        return [limits = Limits(a)](auto x) {
          using C = decltype(x);
          const bool is_between = (x >= static_cast<C>(limits.min)) & (x <= static_cast<C>(limits.max));
          return is_between ? C(1) : C(0);
        };
      },
      ToldBy::x, {"f32[4,6] (min=-1, max=0.75)", "f32[2,6,4] (min=0.5)", "f32[4,6] (max=1.5)"});
  for (OpDef& op : ops)
    op.infer = [infer = op.infer](const Call& c) {
      Limits{c.attributes};
      return infer(c);
    };
  ops[0].torch.line_for = [](const Call& c) {
    std::string out = "torch.clamp({0}";
    for (const char* limit : {"min", "max"})
      if (c.attributes.find(limit)) out += fmt::format(", {0}={{{0}}}", limit);
    return out + ")";
  };
  ops[0].jax.line_for = [](const Call& c) {
    std::string out = "jnp.clip({0}";
    for (const char* limit : {"min", "max"})
      if (c.attributes.find(limit)) out += fmt::format(", {0}={{{0}}}", limit);
    return out + ")";
  };
  ops[1].torch.line_for = [](const Call& c) {
    std::string out = "{0}";
    if (c.attributes.find("min")) out += " * ({1} >= {min})";
    if (c.attributes.find("max")) out += " * ({1} <= {max})";
    return out;
  };
  return ops;
}

}  // namespace

std::vector<OpDef> unary() {
  std::vector<OpDef> all = plain_functions();
  const auto add = [&](std::vector<OpDef> ops) { all.insert(all.end(), ops.begin(), ops.end()); };
  add(in_python(function(
                    "relu", "y = x where x > 0, else 0", [](auto x) { return x < 0 ? 0 : x; },
                    [](auto y) { return static_cast<decltype(y)>(y > 0); }, ToldBy::y, "!=0"),
                {"torch.relu({0})", "aten.threshold_backward({0}, {1}, 0)"},
                {"jnp.maximum({0}, 0)", "jnp.where({1} > 0, {0}, 0)"}));
  add(in_python(function(
                    "tanh", "y = hyperbolic tangent of x", [](auto x) { return math::tanh(x); },
                    [](auto y) { return 1 - y * y; }, ToldBy::y),
                {"torch.tanh({0})", "aten.tanh_backward({0}, {1})"},
                {"jnp.tanh({0})", "once(lambda dy, y: dy * (1 - y * y), {0}, {1})"}));
  add(in_python(function(
                    "sigmoid", "y = 1 / (1 + e^-x)", [](auto x) { return math::sigmoid(x); },
                    [](auto y) { return y * (1 - y); }, ToldBy::y),
                {"torch.sigmoid({0})", "aten.sigmoid_backward({0}, {1})"},
                {"jax.nn.sigmoid({0})", "once(lambda dy, y: dy * y * (1 - y), {0}, {1})"}));
  add(in_python(function(
                    "sqrt", "y = square root of x", [](auto x) { return std::sqrt(x); },
                    [](auto y) { return static_cast<decltype(y)>(0.5) / y; }, ToldBy::y, ">0"),
                {"torch.sqrt({0})", "{0} / (2 * {1})"}, {"jnp.sqrt({0})", {}}));
  add(in_python(function(
                    "rsqrt", "y = 1 / sqrt(x)", [](auto x) { return 1 / std::sqrt(x); },
                    [](auto y) { return static_cast<decltype(y)>(-0.5) * y * y * y; }, ToldBy::y, ">0"),
                {"torch.rsqrt({0})", "once(lambda dy, y: -0.5 * dy * y * y * y, {0}, {1})"},
                {"lax.rsqrt({0})", {}}));
  add(in_python(function(
                    "reciprocal", "y = 1 / x", [](auto x) { return 1 / x; }, [](auto y) { return -y * y; },
                    ToldBy::y, "!=0"),
                {"torch.reciprocal({0})", "once(lambda dy, y: -dy * y * y, {0}, {1})"}, {"1 / {0}", {}}));
  add(in_python(function(
                    "abs", "y = x without its sign", [](auto x) { return std::abs(x); },
                    [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); }, ToldBy::x, "!=0"),
                {"torch.abs({0})", "{0} * torch.sign({1})"}, {"jnp.abs({0})", "{0} * jnp.sign({1})"}));
  add(in_python(function(
                    "sin", "y = sine of x", [](auto x) { return std::sin(x); },
                    [](auto x) { return std::cos(x); }, ToldBy::x),
                {"torch.sin({0})", "once(lambda dy, x: dy * torch.cos(x), {0}, {1})"},
                {"jnp.sin({0})", "once(lambda dy, x: dy * jnp.cos(x), {0}, {1})"}));
  add(in_python(function(
                    "cos", "y = cosine of x", [](auto x) { return std::cos(x); },
                    [](auto x) { return -std::sin(x); }, ToldBy::x),
                {"torch.cos({0})", "once(lambda dy, x: -dy * torch.sin(x), {0}, {1})"},
                {"jnp.cos({0})", "once(lambda dy, x: -dy * jnp.sin(x), {0}, {1})"}));
  add(in_python(
      function(
          "erf", "y = error function of x", [](auto x) { return math::erf(x); },
          [](auto x) { return 2 * std::numbers::inv_sqrtpi_v<decltype(x)> * math::exp(-x * x); }, ToldBy::x),
      {"torch.erf({0})", "once(lambda dy, x: dy * torch.exp(-x * x) * (2 / math.sqrt(math.pi)), {0}, {1})"},
      {"lax.erf({0})", "once(lambda dy, x: dy * jnp.exp(-x * x) * (2 / math.sqrt(math.pi)), {0}, {1})"}));
  add(power());
  add(clip());
  add({steps("sign", "y = -1, 0 or 1; no gradient flows",
             [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); }),
       steps("floor", "y = largest integer that is at most x; no gradient flows",
             [](auto x) { return std::floor(x); }),
       steps("ceil", "y = smallest integer that is at least x; no gradient flows",
             [](auto x) { return std::ceil(x); }),
       steps("round", "y = nearest integer, of two the even one; no gradient flows",
             [](auto x) { return std::nearbyint(x); })});
  return all;
}

}  // namespace shardwright::ops
