// The gated unit of llama's feed-forward: y = silu(gate) up. One pass over memory forwards, and one backwards.

#include "shardwright/ops/elementwise.h"
#include "shardwright/ops/math.h"

namespace shardwright::ops {
namespace {

BlockKernel block(const Call& call) {
  return floating_elements<2>(call, [](auto gate, auto up) { return gate * math::sigmoid(gate) * up; });
}

/// dgate = dy up s (1 + gate (1 - s)), dup = dy gate s with s = sigmoid(gate)
BlockKernel gradient_block(const Call& call) {
  return floating_block(call, []<class C>(std::type_identity<C>, const ElementBlock& b) {
    for_each_element<C, 3, 2>(b, [](C dy, C gate, C up) {
      const C s = math::sigmoid(gate);
      return std::array<C, 2>{dy * up * s * (1 + gate * (1 - s)), dy * gate * s};
    });
  });
}

}  // namespace

std::vector<OpDef> swiglu() {
  OpDef gradient = elementwise({.name = "swiglu_grad",
                                .doc = "dgate and dup of swiglu",
                                .linear = "{0}",
                                .infer = [](const Call& c) { return std::vector(2, common_type(c, 3)); },
                                .block = gradient_block,
                                .samples = {"f32[4,6], f32[4,6], f32[4,6]"},
                                .torch = {.line = "swiglu_grad({0}, {1}, {2})", .functions = R"(
def swiglu_grad(dy, gate, up):
    d, g, u = wide(dy), wide(gate), wide(up)
    s = torch.sigmoid(g)
    return (d * u * s * (1 + g * (1 - s))).to(gate.dtype), (d * g * s).to(up.dtype)
)"},
                                .jax = {.functions = R"(
def swiglu_grad(dy, gate, up):
    d, g, u = wide(dy), wide(gate), wide(up)
    s = jax.nn.sigmoid(g)
    return (d * u * s * (1 + g * (1 - s))).astype(gate.dtype), (d * g * s).astype(up.dtype)
)"}},
                               3);
  gradient.rule = "..., ..., ... -> ..., ...";
  gradient.overwrites = {0, 1};
  return {elementwise({.name = "swiglu",
                       .doc = "y = gate / (1 + e^-gate) up",
                       .linear = "{1}",
                       .gradient =
                           [](Gradient& g) {
                             return g.call_all("swiglu_grad", {g.dy(), g.in(0), g.in(1)});
                           },
                       .block = block,
                       .samples = {"f32[4,6], f32[4,6]", "f32[2,6,4], f32[2,6,4]"},
                       .torch = {.line = "once(lambda gate, up: F.silu(gate) * up, {0}, {1})"},
                       .jax = {.line = "once(lambda gate, up: jax.nn.silu(gate) * up, {0}, {1})"}},
                      2),
          std::move(gradient)};
}

}  // namespace shardwright::ops
