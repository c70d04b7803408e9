// Leaky relu with a learned slope: y = x where x > 0, else slope x. The slope broadcasts to x: for one slope per channel
// of [batch, channel, height, width] it is [channel, 1, 1].

#include "shardwright/ops/elementwise.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  Shape shape = broadcast_of(call, 2);
  check_floating(call.operands[0].dtype);
  check_same_dtype(call, 0, 1);
  if (shape != call.operands[0].shape)
    throw error("slope {} does not broadcast to {}: right-aligned, its dims must be equal to those or 1",
                to_text(call.operands[1]), to_text(call.operands[0]));
  return {call.operands[0]};
}

std::vector<ValueId> gradient(Gradient& g) {
  return unbroadcast_all(g, g.call_all("prelu_grad", {g.dy(), g.in(0), g.in(1)}));
}

/// dy, x, slope -> dx, and what each element adds to the slope's gradient.
std::vector<Type> infer_gradient(const Call& call) {
  check_count(call, 3);
  const Type x = infer({call.operands.subspan(1), {}, call.attributes})[0];
  if (call.operands[0] != x)
    throw error("operand 0 is {} but operand 1 is {}; they must be equal", to_text(call.operands[0]),
                to_text(x));
  return {x, x};
}

std::string gradient_rule(const Call& call) {
  const std::string rule = broadcast_rule(call, 3);
  return rule + ", " + rule.substr(rule.find("->") + 3);
}

BlockKernel block(const Call& call) {
  return floating_elements<2>(call, [](auto x, auto slope) { return x > 0 ? x : slope * x; });
}

BlockKernel gradient_block(const Call& call) {
  return floating_block(call, []<class C>(std::type_identity<C>, const ElementBlock& b) {
    for_each_element<C, 3, 2>(b, [](C dy, C x, C slope) {
      const C dx = dy * slope, dslope = dy * x;
      return std::array<C, 2>{x > 0 ? dy : dx, x > 0 ? C(0) : dslope};
    });
  });
}

}  // namespace

std::vector<OpDef> prelu() {
  OpDef forward{.name = "prelu",
                .doc = "y = x where x > 0, else slope x; operands x and slope, which broadcasts to x",
                .infer = infer,
                .gradient = gradient,
                .block = block,
                .samples = {"f32[2,6,2,3]!=0, f32[6,1,1]", "f32[4,6]!=0, f32[]"},
                .overwrites = {0},
                .torch = {.line = "torch.where({0} > 0, {0}, {1} * {0})"},
                .jax = {.line = "jnp.where({0} > 0, {0}, {1} * {0})"}};
  OpDef backward{.name = "prelu_grad",
                 .doc = "dx and, element by element, dslope of prelu",
                 .rule_for = gradient_rule,
                 .linear = "{0}",
                 .infer = infer_gradient,
                 .block = gradient_block,
                 .samples = {"f32[2,6,4], f32[2,6,4]!=0, f32[6,1]", "f32[4,6], f32[4,6]!=0, f32[4,6]"},
                 .overwrites = {0, 1},
                 .torch = {.line = "prelu_grad({0}, {1}, {2})", .functions = R"(
def prelu_grad(dy, x, slope):
    zero = torch.zeros_like(dy)
    return torch.where(x > 0, dy, dy * slope), torch.where(x > 0, zero, dy * x)
)"},
                 .jax = {.functions = R"(
def prelu_grad(dy, x, slope):
    return jnp.where(x > 0, dy, dy * slope), jnp.where(x > 0, jnp.zeros_like(dy), dy * x)
)"}};
  return {broadcasting(std::move(forward), 2), std::move(backward)};
}

}  // namespace shardwright::ops
