// The same tensor in another memory format (base/format.h). Operators know nothing of formats: a pass puts this one
// where the format that a value has is not the one that its user takes, and the backend's kernel sees both.

#include <algorithm>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {

std::vector<OpDef> reformat() {
  return {{.name = "reformat",
           .doc = "y = x, its elements in another order in memory",
           .rule = "... -> ...",
           .linear = "{0}",
           .infer = [](const Call& c) { return std::vector{common_type(c, 1)}; },
           .gradient = [](Gradient& g) { return std::vector<ValueId>{g.dy()}; },
           .kernel =
               [](const KernelCall& call) {
                 const TensorView &x = call.operands[0], &y = call.results[0];
                 std::copy_n(x.data, x.size() * static_cast<std::int64_t>(size_of(x.dtype)), y.data);
               },
           .samples = {"f32[4,6]", "f32[2,6,4]"},
           .torch = {.line = "{0}", .may_share = true}}};
}

}  // namespace shardwright::ops
