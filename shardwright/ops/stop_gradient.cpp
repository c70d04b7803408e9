// y = x, but no gradient flows back: for values that cancel out, such as the maximum that a softmax
// subtracts.

#include <cstring>

#include "shardwright/graph/builder.h"
#include "shardwright/graph/op.h"

namespace shardwright::ops {
namespace {

void kernel(const KernelCall& call) {
  const TensorView& from = call.operands[0];
  const TensorView& to = call.results[0];
  if (from.data != to.data)
    std::memcpy(to.data, from.data, static_cast<std::size_t>(to.size()) * size_of(to.dtype));
}

}  // namespace

std::vector<OpDef> stop_gradient() {
  return {{
      .name = "stop_gradient",
      .doc = "y = x, without a gradient",
      .rule = "... -> ...",
      .linear = "{0}",
      .gradient = [](Gradient&) { return std::vector<ValueId>{ValueId{}}; },
      .kernel = kernel,
      .samples = {"f32[6,4]"},
      .is_alias = true,
  }};
}

}  // namespace shardwright::ops
