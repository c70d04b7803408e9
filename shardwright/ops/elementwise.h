// What point-wise operators share: functions of one operand with their gradients, and operands that broadcast
// against each other as in numpy.
//
// The gradient of a function NAME is the operator NAME_grad(dy, x or y) = dy f'(x), linear in dy. Told by y where
// possible: then x need not be kept for the backward, and y often is anyway.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/block.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {

/// y = f(x)
template <class F>
BlockKernel map(const Call& call, F f) {
  return floating_elements<1>(call, f);
}

/// dx = dy derivative(x or y)
template <class D>
BlockKernel map_gradient(const Call& call, D derivative) {
  return floating_elements<2>(call, [derivative](auto dy, auto at) { return dy * derivative(at); });
}

/// A point-wise operator of `operands` equal types.
inline OpDef elementwise(OpDef op, std::size_t operands) {
  op.rule = "...";
  for (std::size_t i = 1; i < operands; ++i) op.rule += ", ...";
  op.rule += " -> ...";
  op.overwrites = {0};
  if (!op.infer) op.infer = [operands](const Call& c) { return std::vector{common_type(c, operands)}; };
  return op;
}

enum class ToldBy { x, y };

/// A function with attributes: `make_f(attributes)` is f, `make_derivative(attributes)` its derivative.
/// `samples` are of f: `f32[4,6]!=0 (slope=0.25)`.
template <class F, class D>
std::vector<OpDef> function_with(const std::string& name, std::string doc,
                                 const std::vector<std::string>& attributes, F make_f, D make_derivative,
                                 ToldBy told_by, const std::vector<std::string>& samples) {
  const auto gradient = [name, told_by](Gradient& g) {
    const ValueId at = told_by == ToldBy::x ? g.in(0) : g.out();
    return std::vector{g.call(name + "_grad", {g.dy(), at}, g.attributes())};
  };
  OpDef f{.name = name,
          .doc = std::move(doc),
          .attributes = attributes,
          .gradient = gradient,
          .block = [make_f](const Call& c) { return map(c, make_f(c.attributes)); },
          .samples = samples};
  OpDef df{
      .name = name + "_grad",
      .doc = fmt::format("dx = dy times the derivative of {}, told by {}", name,
                         told_by == ToldBy::x ? "x" : "y"),
      .attributes = attributes,
      .linear = "{0}",
      .block = [make_derivative](const Call& c) { return map_gradient(c, make_derivative(c.attributes)); }};
  for (const std::string& s : samples) df.samples.push_back(s.substr(0, s.find_first_of(">!< ")) + ", " + s);
  return {elementwise(std::move(f), 1), elementwise(std::move(df), 2)};
}

/// The function `name` without attributes. `domain` is where samples lie: `>0`, `!=0` or anything.
template <class F, class D>
std::vector<OpDef> function(const std::string& name, std::string doc, F f, D derivative, ToldBy told_by,
                            const std::string& domain = "") {
  return function_with(
      name, std::move(doc), {}, [f](const Attributes&) { return f; },
      [derivative](const Attributes&) { return derivative; }, told_by,
      {fmt::format("f32[4,6]{}", domain), fmt::format("f32[2,6,4]{}", domain)});
}

/// A function and its gradient, with how they are written in PyTorch and in JAX.
struct WrittenFunction {
  std::string f, gradient;
};
inline std::vector<OpDef> in_python(std::vector<OpDef> ops, WrittenFunction torch, WrittenFunction jax) {
  ops[0].torch.line = std::move(torch.f);
  ops[1].torch.line = std::move(torch.gradient);
  ops[0].jax.line = std::move(jax.f);
  ops[1].jax.line = std::move(jax.gradient);
  return ops;
}

// ---- broadcasting ----

/// The shape to which all `count` operands broadcast. Throws: Error if they do not.
inline Shape broadcast_of(const Call& call, std::size_t count) {
  check_count(call, count);
  Shape shape = call.operands[0].shape;
  for (std::size_t i = 1; i < count; ++i) {
    auto both = broadcast_shape(shape, call.operands[i].shape);
    if (!both)
      throw error("{} and {} do not broadcast: right-aligned, dims must be equal or 1",
                  i == 1 ? to_text(call.operands[0]) : to_text(shape), to_text(call.operands[i]));
    shape = std::move(*both);
  }
  return shape;
}

/// Loop dims are those of the result; a dim of size 1 that is stretched has none.
inline std::string broadcast_rule(const Call& call, std::size_t count) {
  const Shape to = broadcast_of(call, count);
  std::vector<std::string> sides;
  for (const Type& t : call.operands) {
    std::vector<std::string> dims;
    const std::size_t extra = to.size() - t.shape.size();
    for (std::size_t d = 0; d < t.shape.size(); ++d)
      dims.push_back(t.shape[d] == to[extra + d] ? loop_name(extra + d) : "1");
    sides.push_back(tensor_text(dims));
  }
  return fmt::format("{} -> {}", join(sides, ", "), tensor_text(to.size()));
}

/// A point-wise operator whose `operands` broadcast.
inline OpDef broadcasting(OpDef op, std::size_t operands) {
  op.rule_for = [operands](const Call& c) { return broadcast_rule(c, operands); };
  return op;
}

/// `gradients` have the shape of the result; each operand gets the sum over what it was stretched along.
inline std::vector<ValueId> unbroadcast_all(Gradient& g, std::vector<ValueId> gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].is_valid()) gradients[i] = unbroadcast(g, gradients[i], g.type(g.in(i)).shape);
  return gradients;
}

}  // namespace shardwright::ops
