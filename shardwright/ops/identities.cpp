// Operators whose result is their operand: what they say is said to the planner or to autodiff, and a pass takes them
// out of programs; but for `keep`, which stays, since it says something of memory.

#include <cstring>

#include "shardwright/graph/builder.h"
#include "shardwright/graph/op.h"

namespace shardwright::ops {
namespace {

BlockKernel block(const Call& call) {
  return [bytes = size_of(call.results[0].dtype)](const ElementBlock& b) {
    if (b.operands[0] != b.results[0])
      std::memcpy(b.results[0], b.operands[0], static_cast<std::size_t>(b.count) * bytes);
  };
}

void copy(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  if (x.data != y.data && x.size() > 0)
    std::memcpy(y.data, x.data, static_cast<std::size_t>(x.size()) * size_of(x.dtype));
}

OpDef identity(std::string name, std::string doc, std::function<std::vector<ValueId>(Gradient&)> gradient) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .rule = "... -> ...",
          .linear = "{0}",
          .gradient = std::move(gradient),
          .block = block,
          .samples = {"f32[6,4]"},
          .is_alias = true,
          .torch = {.line = "{0}", .may_share = true}};
}

}  // namespace

std::vector<OpDef> identities() {
  return {
      // The gradient passes in whatever layout it has; the operators that use it say what they need.
      identity("reshard", "y = x, in the layout that its strategy says",
               [](Gradient& g) { return std::vector<ValueId>{g.dy()}; }),
      // For values that cancel out, such as the maximum that a softmax subtracts.
      identity("stop_gradient", "y = x, without a gradient",
               [](Gradient&) { return std::vector<ValueId>{ValueId{}}; }),
      {.name = "keep",
       .doc = "y = x, kept for a backward that recomputes: its redistributions are not shared with x",
       .rule = "... -> ...",
       .linear = "{0}",
       .kernel = copy,
       .samples = {"f32[6,4]"},
       .is_alias = true,
       .torch = {.line = "{0}", .may_share = true}},
  };
}

}  // namespace shardwright::ops
