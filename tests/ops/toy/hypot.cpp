// The length of the hypotenuse: y = sqrt(a^2 + b^2), element by element.
//
// A toy: it shows that an operator is one file. tests/CMakeLists.txt builds the contract test and the command
// line with this file among those of shardwright/ops; docs/add-an-operator.md explains it line by line.

#include <cmath>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/block.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) { return {common_type(call, 2)}; }

std::vector<ValueId> gradient(Gradient& g) {  // da = dy a / y, db = dy b / y
  const ValueId scaled = g.call("div", {g.dy(), g.out()});
  return {g.call("mul", {scaled, g.in(0)}), g.call("mul", {scaled, g.in(1)})};
}

BlockKernel block(const Call& call) {
  return floating_elements<2>(call, [](auto a, auto b) { return std::hypot(a, b); });
}

}  // namespace

std::vector<OpDef> hypot() {
  return {{
      .name = "hypot",
      .doc = "y = sqrt(a^2 + b^2)",
      .rule = "..., ... -> ...",
      .infer = infer,
      .gradient = gradient,
      .block = block,
      .samples = {"f32[4,6]!=0, f32[4,6]", "f32[12], f32[12]!=0"},
      .overwrites = {0},
  }};
}

}  // namespace shardwright::ops
