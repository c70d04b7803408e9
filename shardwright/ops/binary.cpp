// Element-wise operators of two operands, broadcast against each other as in numpy.

#include <cmath>

#include "shardwright/ops/elementwise.h"
#include "shardwright/ops/wrapping.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer_number(const Call& call) {
  Shape shape = broadcast_of(call, 2);
  check_same_dtype(call, 0, 1);
  check_number(call.operands[0].dtype);
  return {{call.operands[0].dtype, std::move(shape)}};
}

std::vector<Type> infer_floating(const Call& call) {
  auto types = infer_number(call);
  check_floating(types[0].dtype);
  return types;
}

template <class F>
std::function<BlockKernel(const Call&)> of_numbers(F f) {
  return [f](const Call& call) {
    return number_elements<2>(call, [f](auto a, auto b) { return wrapping(a, b, f); });
  };
}

template <class F>
std::function<BlockKernel(const Call&)> of_floating(F f) {
  return [f](const Call& call) { return floating_elements<2>(call, f); };
}

std::vector<ValueId> unbroadcast(Gradient& g, ValueId da, ValueId db) { return unbroadcast_all(g, {da, db}); }

std::vector<ValueId> div_gradient(Gradient& g) {  // da = dy / b, db = -da y
  const ValueId da = g.call("div", {g.dy(), g.in(1)});
  return unbroadcast(g, da, g.call("neg", {g.call("mul", {da, g.out()})}));
}

/// `above` is positive where the gradient goes to a; elsewhere, ties included, it goes to b.
std::vector<ValueId> select_gradient(Gradient& g, ValueId above) {
  const ValueId da = g.call("relu_grad", {g.dy(), above});
  return unbroadcast(g, da, g.call("sub", {g.dy(), da}));
}

std::vector<ValueId> pow_gradient(Gradient& g) {  // da = dy b a^(b-1), db = dy y log a
  const ValueId a = g.in(0), b = g.in(1);
  const ValueId lower = g.call("pow", {a, g.call("shift", {b}, {{"value", -1.0}})});
  return unbroadcast(g, g.call("mul", {g.call("mul", {g.dy(), b}), lower}),
                     g.call("mul", {g.call("mul", {g.dy(), g.out()}), g.call("log", {a})}));
}

std::vector<ValueId> atan2_gradient(Gradient& g) {  // da = dy b / (a^2 + b^2), db = -dy a / (a^2 + b^2)
  const ValueId a = g.in(0), b = g.in(1);
  const ValueId square = g.call("add", {g.call("mul", {a, a}), g.call("mul", {b, b})});
  const ValueId dy = g.call("div", {g.dy(), square});
  return unbroadcast(g, g.call("mul", {dy, b}), g.call("neg", {g.call("mul", {dy, a})}));
}

OpDef binary(OpDef op) {
  op.overwrites = {0};
  return broadcasting(std::move(op), 2);
}

const std::vector<std::string> shapes = {"f32[4,6], f32[4,6]",   "f32[4,6], f32[6]", "f32[4,1], f32[1,6]",
                                         "f32[2,6,4], f32[6,1]", "f32[], f32[4,6]",  "f32[6], f32[2,6,6]"};

}  // namespace

std::vector<OpDef> binary() {
  using Facet = std::vector<ValueId> (*)(Gradient&);
  const auto add = [](auto a, auto b) { return a + b; };
  const auto sub = [](auto a, auto b) { return a - b; };
  const auto mul = [](auto a, auto b) { return a * b; };
  const auto div = [](auto a, auto b) { return a / b; };
  // A NaN on either side is the result.
  const auto largest = [](auto a, auto b) { return a > b || a != a ? a : b; };
  const auto smallest = [](auto a, auto b) { return a < b || a != a ? a : b; };
  const auto angle = [](auto a, auto b) { return std::atan2(a, b); };
  const auto power = [](auto a, auto b) { return std::pow(a, b); };
  return {
      binary({.name = "add",
              .doc = "y = a + b",
              .linear = "{0,1}",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) { return unbroadcast(g, g.dy(), g.dy()); }),
              .block = of_numbers(add),
              .samples = shapes,
              .torch = {.line = "{0} + {1}"}}),
      binary({.name = "sub",
              .doc = "y = a - b",
              .linear = "{0,1}",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) { return unbroadcast(g, g.dy(), g.call("neg", {g.dy()})); }),
              .block = of_numbers(sub),
              .samples = shapes,
              .torch = {.line = "{0} - {1}"}}),
      binary({.name = "mul",
              .doc = "y = a b",
              .linear = "{0} {1}",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) {
                return unbroadcast(g, g.call("mul", {g.dy(), g.in(1)}), g.call("mul", {g.dy(), g.in(0)}));
              }),
              .block = of_numbers(mul),
              .samples = shapes,
              .torch = {.line = "{0} * {1}"}}),
      binary({.name = "div",
              .doc = "y = a / b",
              .linear = "{0}",
              .infer = infer_floating,
              .gradient = div_gradient,
              .block = of_floating(div),
              .samples = {"f32[4,6], f32[4,6]!=0", "f32[4,6], f32[6]!=0", "f32[6], f32[4,6]!=0"},
              .torch = {.line = "{0} / {1}"}}),
      binary({.name = "maximum",
              .doc = "y = the larger of a and b; where they are equal, the gradient goes to b",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) {
                return select_gradient(g, g.call("sub", {g.in(0), g.in(1)}));
              }),
              .block = [=](const Call& c) { return number_elements<2>(c, largest); },
              .samples = {"f32[4,6], f32[4,6]", "f32[4,6], f32[6]"},
              .torch = {.line = "torch.maximum({0}, {1})"},
              .jax = {.line = "jnp.maximum({0}, {1})"}}),
      binary({.name = "minimum",
              .doc = "y = the smaller of a and b; where they are equal, the gradient goes to b",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) {
                return select_gradient(g, g.call("sub", {g.in(1), g.in(0)}));
              }),
              .block = [=](const Call& c) { return number_elements<2>(c, smallest); },
              .samples = {"f32[4,6], f32[4,6]", "f32[4,6], f32[6]"},
              .torch = {.line = "torch.minimum({0}, {1})"},
              .jax = {.line = "jnp.minimum({0}, {1})"}}),
      binary({.name = "pow",
              .doc = "y = a ^ b; b has a gradient only where a > 0",
              .infer = infer_floating,
              .gradient = pow_gradient,
              .block = of_floating(power),
              .samples = {"f32[4,6]>0, f32[4,6]", "f32[4,6]>0, f32[]"},
              .torch = {.line = "{0} ** {1}"}}),
      binary({.name = "atan2",
              .doc = "y = the angle of the point (b, a), from -pi to pi",
              .infer = infer_floating,
              .gradient = atan2_gradient,
              .block = of_floating(angle),
              .samples = {"f32[4,6], f32[4,6]!=0", "f32[4,6], f32[6]!=0", "f32[6]!=0, f32[4,6]"},
              .torch = {.line = "torch.atan2({0}, {1})"},
              .jax = {.line = "jnp.arctan2({0}, {1})"}}),
  };
}

}  // namespace shardwright::ops
