// Element-wise operators of two operands, broadcast against each other as in numpy.

#include <cmath>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/strided.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

Shape result_shape(const Call& call) {
  check_count(call, 2);
  const auto shape = broadcast_shape(call.operands[0].shape, call.operands[1].shape);
  if (!shape)
    throw error("{} and {} do not broadcast: right-aligned, dims must be equal or 1",
                to_text(call.operands[0]), to_text(call.operands[1]));
  return *shape;
}

/// Loop dims are those of the result; a dim of size 1 that is stretched has none.
std::string rule(const Call& call) {
  const Shape to = result_shape(call);
  std::vector<std::string> sides;
  for (const Type& t : call.operands) {
    std::vector<std::string> dims;
    const std::size_t extra = to.size() - t.shape.size();
    for (std::size_t d = 0; d < t.shape.size(); ++d)
      dims.push_back(t.shape[d] == to[extra + d] ? loop_name(extra + d) : "1");
    sides.push_back(tensor_text(dims));
  }
  return fmt::format("{}, {} -> {}", sides[0], sides[1], tensor_text(to.size()));
}

std::vector<Type> infer_number(const Call& call) {
  Shape shape = result_shape(call);
  check_same_dtype(call, 0, 1);
  check_number(call.operands[0].dtype);
  return {{call.operands[0].dtype, std::move(shape)}};
}

std::vector<Type> infer_floating(const Call& call) {
  auto types = infer_number(call);
  check_floating(types[0].dtype);
  return types;
}

template <class T, class F>
void apply(const KernelCall& call, F f) {
  const TensorView &a = call.operands[0], &b = call.operands[1], &y = call.results[0];
  const Walk walk = walk_over(y.shape, std::vector{strides_of(y.shape), broadcast_strides(a.shape, y.shape),
                                                   broadcast_strides(b.shape, y.shape)});
  const std::int64_t n = walk.row_length();
  T* const ys = y.as<T>().data();
  const T* const as = a.as<T>().data();
  const T* const bs = b.as<T>().data();
  const auto at = [](T x) { return static_cast<Compute<T>>(x); };
  for_each_row(walk, [&](const Shape& offset) {
    T* const to = ys + offset[0];
    const T* const p = as + offset[1];
    const T* const q = bs + offset[2];
    if (walk.step(1) == 0) {
      const auto x = at(*p);
      for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(f(x, at(q[i])));
    } else if (walk.step(2) == 0) {
      const auto x = at(*q);
      for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(f(at(p[i]), x));
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(f(at(p[i]), at(q[i])));
    }
  });
}

template <class F>
void number_kernel(const KernelCall& call) {
  visit_number(call.results[0].dtype, [&]<class T>(std::type_identity<T>) { apply<T>(call, F{}); });
}

template <class F>
void floating_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) { apply<T>(call, F{}); });
}

/// `da` and `db` have the shape of the result; each operand gets the sum over what it was stretched along.
std::vector<ValueId> unbroadcast(Gradient& g, ValueId da, ValueId db) {
  return {unbroadcast(g, da, g.type(g.in(0)).shape), unbroadcast(g, db, g.type(g.in(1)).shape)};
}

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

OpDef binary(OpDef op) {
  op.rule_for = rule;
  op.overwrites = {0};
  return op;
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
  const auto power = [](auto a, auto b) { return std::pow(a, b); };
  return {
      binary({.name = "add",
              .doc = "y = a + b",
              .linear = "{0,1}",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) { return unbroadcast(g, g.dy(), g.dy()); }),
              .kernel = number_kernel<decltype(add)>,
              .samples = shapes}),
      binary({.name = "sub",
              .doc = "y = a - b",
              .linear = "{0,1}",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) { return unbroadcast(g, g.dy(), g.call("neg", {g.dy()})); }),
              .kernel = number_kernel<decltype(sub)>,
              .samples = shapes}),
      binary({.name = "mul",
              .doc = "y = a b",
              .linear = "{0} {1}",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) {
                return unbroadcast(g, g.call("mul", {g.dy(), g.in(1)}), g.call("mul", {g.dy(), g.in(0)}));
              }),
              .kernel = number_kernel<decltype(mul)>,
              .samples = shapes}),
      binary({.name = "div",
              .doc = "y = a / b",
              .linear = "{0}",
              .infer = infer_floating,
              .gradient = div_gradient,
              .kernel = floating_kernel<decltype(div)>,
              .samples = {"f32[4,6], f32[4,6]!=0", "f32[4,6], f32[6]!=0", "f32[6], f32[4,6]!=0"}}),
      binary({.name = "maximum",
              .doc = "y = the larger of a and b; where they are equal, the gradient goes to b",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) {
                return select_gradient(g, g.call("sub", {g.in(0), g.in(1)}));
              }),
              .kernel = number_kernel<decltype(largest)>,
              .samples = {"f32[4,6], f32[4,6]", "f32[4,6], f32[6]"}}),
      binary({.name = "minimum",
              .doc = "y = the smaller of a and b; where they are equal, the gradient goes to b",
              .infer = infer_number,
              .gradient = Facet([](Gradient& g) {
                return select_gradient(g, g.call("sub", {g.in(1), g.in(0)}));
              }),
              .kernel = number_kernel<decltype(smallest)>,
              .samples = {"f32[4,6], f32[4,6]", "f32[4,6], f32[6]"}}),
      binary({.name = "pow",
              .doc = "y = a ^ b; b has a gradient only where a > 0",
              .infer = infer_floating,
              .gradient = pow_gradient,
              .kernel = floating_kernel<decltype(power)>,
              .samples = {"f32[4,6]>0, f32[4,6]", "f32[4,6]>0, f32[]"}}),
  };
}

}  // namespace shardwright::ops
