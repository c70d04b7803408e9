// The length of the hypotenuse: y = sqrt(a^2 + b^2), element by element.
//
// A toy: it shows that an operator is one file. tests/CMakeLists.txt builds the contract test and the command
// line with this file among those of shardwright/ops; docs/add-an-operator.md explains it line by line.

#include <cmath>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) { return {common_type(call, 2)}; }

std::vector<ValueId> gradient(Gradient& g) {  // da = dy a / y, db = dy b / y
  const ValueId scaled = g.call("div", {g.dy(), g.out()});
  return {g.call("mul", {scaled, g.in(0)}), g.call("mul", {scaled, g.in(1)})};
}

void kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto a = call.operands[0].as<T>(), b = call.operands[1].as<T>();
    const auto y = call.results[0].as<T>();
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = static_cast<T>(std::hypot(static_cast<Compute<T>>(a[i]), static_cast<Compute<T>>(b[i])));
  });
}

}  // namespace

std::vector<OpDef> hypot() {
  return {{
      .name = "hypot",
      .doc = "y = sqrt(a^2 + b^2)",
      .rule = "..., ... -> ...",
      .infer = infer,
      .gradient = gradient,
      .kernel = kernel,
      .samples = {"f32[4,6]!=0, f32[4,6]", "f32[12], f32[12]!=0"},
      .overwrites = {0},
  }};
}

}  // namespace shardwright::ops
