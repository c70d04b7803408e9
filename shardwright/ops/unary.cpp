// Element-wise functions of one operand. Each is one row: its value, and its derivative told by x or by y.
//
// The gradient of NAME is the operator NAME_grad(dy, x or y) = dy f'(x), linear in dy. Told by y where
// possible: then x need not be kept for the backward, and y often is anyway.

#include <cmath>
#include <numbers>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// y = f(x)
template <class F>
void map(const KernelCall& call, F f) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto x = call.operands[0].as<T>();
    const auto y = call.results[0].as<T>();
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(f(static_cast<Compute<T>>(x[i])));
  });
}

/// dx = dy d(x or y)
template <class D>
void map_gradient(const KernelCall& call, D derivative) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto dy = call.operands[0].as<T>();
    const auto at = call.operands[1].as<T>();
    const auto dx = call.results[0].as<T>();
    for (std::size_t i = 0; i < dx.size(); ++i)
      dx[i] = static_cast<T>(static_cast<Compute<T>>(dy[i]) * derivative(static_cast<Compute<T>>(at[i])));
  });
}

OpDef elementwise(OpDef op, std::size_t operands) {
  op.rule = operands == 1 ? "... -> ..." : "..., ... -> ...";
  op.overwrites = {0};
  if (!op.infer) op.infer = [operands](const Call& c) { return std::vector{common_type(c, operands)}; };
  return op;
}

enum class ToldBy { x, y };

/// The function `name` and its NAME_grad. `domain` is where samples lie: `>0`, `!=0` or anything.
template <class F, class D>
std::vector<OpDef> function(const std::string& name, std::string doc, F, D, ToldBy told_by,
                            const std::string& domain = "") {
  const auto gradient = [name, told_by](Gradient& g) {
    const ValueId at = told_by == ToldBy::x ? g.in(0) : g.out();
    return std::vector{g.call(name + "_grad", {g.dy(), at}, g.attributes())};
  };
  return {elementwise({.name = name,
                       .doc = std::move(doc),
                       .gradient = gradient,
                       .kernel = [](const KernelCall& c) { map(c, F{}); },
                       .samples = {fmt::format("f32[4,6]{}", domain), fmt::format("f32[2,6,4]{}", domain)}},
                      1),
          elementwise({.name = name + "_grad",
                       .doc = fmt::format("dx = dy times the derivative of {}, told by {}", name,
                                          told_by == ToldBy::x ? "x" : "y"),
                       .linear = "{0}",
                       .kernel = [](const KernelCall& c) { map_gradient(c, D{}); },
                       .samples = {fmt::format("f32[4,6], f32[4,6]{}", domain)}},
                      2)};
}

// ---- gelu: y = x P(X <= x), X standard normal ----

constexpr auto gelu_exact = [](auto x) {
  using C = decltype(x);
  return x * C(0.5) * (C(1) + std::erf(x * (std::numbers::sqrt2_v<C> / 2)));
};

constexpr auto gelu_exact_derivative = [](auto x) {
  using C = decltype(x);
  const C density =
      std::exp(x * x * C(-0.5)) * (std::numbers::inv_sqrtpi_v<C> * std::numbers::sqrt2_v<C> / 2);
  return C(0.5) * (C(1) + std::erf(x * (std::numbers::sqrt2_v<C> / 2))) + x * density;
};

/// tanh of the inner polynomial sqrt(2 / pi) (x + 0.044715 x^3), and that polynomial's derivative.
template <class C>
struct GeluInner {
  C tanh, slope;
  explicit GeluInner(C x) {
    const C c = std::numbers::sqrt2_v<C> * std::numbers::inv_sqrtpi_v<C>;
    tanh = std::tanh(c * (x + C(0.044715) * x * x * x));
    slope = c * (C(1) + C(3 * 0.044715) * x * x);
  }
};

constexpr auto gelu_tanh = [](auto x) {
  using C = decltype(x);
  return C(0.5) * x * (C(1) + GeluInner<C>(x).tanh);
};

constexpr auto gelu_tanh_derivative = [](auto x) {
  using C = decltype(x);
  const GeluInner<C> in(x);
  return C(0.5) * (C(1) + in.tanh) + C(0.5) * x * (C(1) - in.tanh * in.tanh) * in.slope;
};

bool uses_tanh(const Attributes& attributes) {
  const std::string form = attributes.text("approximate", "none");
  if (form != "none" && form != "tanh") throw error("approximate={} is unknown; write none or tanh", form);
  return form == "tanh";
}

std::vector<OpDef> gelu() {
  auto ops = function("gelu", "y = x P(X <= x) for a standard normal X; approximate=tanh for the tanh form",
                      gelu_exact, gelu_exact_derivative, ToldBy::x);
  for (OpDef& op : ops) {
    op.infer = [infer = op.infer](const Call& c) {
      uses_tanh(c.attributes);
      return infer(c);
    };
    op.samples.push_back(op.samples[0] + " (approximate=tanh)");
  }
  ops[0].kernel = [](const KernelCall& c) {
    uses_tanh(c.attributes) ? map(c, gelu_tanh) : map(c, gelu_exact);
  };
  ops[1].kernel = [](const KernelCall& c) {
    uses_tanh(c.attributes) ? map_gradient(c, gelu_tanh_derivative) : map_gradient(c, gelu_exact_derivative);
  };
  return ops;
}

// ---- functions whose gradient is an operator that there is already ----

std::vector<ValueId> square_gradient(Gradient& g) {  // dx = 2 dy x
  return {g.call("scale", {g.call("mul", {g.dy(), g.in(0)})}, {{"factor", 2.0}})};
}

std::vector<OpDef> plain_functions() {
  using Values = std::vector<ValueId>;
  const auto scale_kernel = [](const KernelCall& c) {
    map(c, [f = c.attributes.number("factor", 1)](auto x) { return x * static_cast<decltype(x)>(f); });
  };
  const auto shift_kernel = [](const KernelCall& c) {
    map(c, [v = c.attributes.number("value", 0)](auto x) { return x + static_cast<decltype(x)>(v); });
  };
  return {
      elementwise({.name = "exp",
                   .doc = "y = e^x",
                   .gradient =
                       [](Gradient& g) {
                         return Values{g.call("mul", {g.dy(), g.out()})};
                       },
                   .kernel = [](const KernelCall& c) { map(c, [](auto x) { return std::exp(x); }); },
                   .samples = {"f32[4,6]"}},
                  1),
      elementwise({.name = "log",
                   .doc = "y = natural logarithm of x",
                   .gradient =
                       [](Gradient& g) {
                         return Values{g.call("div", {g.dy(), g.in(0)})};
                       },
                   .kernel = [](const KernelCall& c) { map(c, [](auto x) { return std::log(x); }); },
                   .samples = {"f32[4,6]>0"}},
                  1),
      elementwise({.name = "neg",
                   .doc = "y = -x",
                   .linear = "{0}",
                   .gradient = [](Gradient& g) { return Values{g.call("neg", {g.dy()})}; },
                   .kernel = [](const KernelCall& c) { map(c, [](auto x) { return -x; }); },
                   .samples = {"f32[4,6]"}},
                  1),
      elementwise({.name = "square",
                   .doc = "y = x^2",
                   .gradient = square_gradient,
                   .kernel = [](const KernelCall& c) { map(c, [](auto x) { return x * x; }); },
                   .samples = {"f32[4,6]"}},
                  1),
      elementwise({.name = "sign",
                   .doc = "y = -1, 0 or 1; no gradient flows",
                   .gradient = [](Gradient&) { return Values{ValueId{}}; },
                   .kernel =
                       [](const KernelCall& c) {
                         map(c, [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); });
                       },
                   .samples = {"f32[4,6]!=0"}},
                  1),
      elementwise({.name = "scale",
                   .doc = "y = factor x",
                   .linear = "{0}",
                   .gradient = [](Gradient& g) { return Values{g.call("scale", {g.dy()}, g.attributes())}; },
                   .kernel = scale_kernel,
                   .samples = {"f32[4,6] (factor=0.5)"}},
                  1),
      elementwise({.name = "shift",
                   .doc = "y = x + value",
                   .gradient = [](Gradient& g) { return Values{g.dy()}; },
                   .kernel = shift_kernel,
                   .samples = {"f32[4,6] (value=2.5)"}},
                  1),
  };
}

}  // namespace

std::vector<OpDef> unary() {
  std::vector<OpDef> all = plain_functions();
  const auto add = [&](std::vector<OpDef> ops) { all.insert(all.end(), ops.begin(), ops.end()); };
  add(gelu());
  add(function(
      "relu", "y = x where x > 0, else 0", [](auto x) { return x < 0 ? 0 : x; },
      [](auto y) { return static_cast<decltype(y)>(y > 0); }, ToldBy::y, "!=0"));
  add(function(
      "tanh", "y = hyperbolic tangent of x", [](auto x) { return std::tanh(x); },
      [](auto y) { return 1 - y * y; }, ToldBy::y));
  add(function(
      "sigmoid", "y = 1 / (1 + e^-x)", [](auto x) { return 1 / (1 + std::exp(-x)); },
      [](auto y) { return y * (1 - y); }, ToldBy::y));
  add(function(
      "sqrt", "y = square root of x", [](auto x) { return std::sqrt(x); },
      [](auto y) { return static_cast<decltype(y)>(0.5) / y; }, ToldBy::y, ">0"));
  add(function(
      "rsqrt", "y = 1 / sqrt(x)", [](auto x) { return 1 / std::sqrt(x); },
      [](auto y) { return static_cast<decltype(y)>(-0.5) * y * y * y; }, ToldBy::y, ">0"));
  add(function(
      "reciprocal", "y = 1 / x", [](auto x) { return 1 / x; }, [](auto y) { return -y * y; }, ToldBy::y,
      "!=0"));
  add(function(
      "abs", "y = x without its sign", [](auto x) { return std::abs(x); },
      [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); }, ToldBy::x, "!=0"));
  return all;
}

}  // namespace shardwright::ops
