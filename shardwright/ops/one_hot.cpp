// Rows of zeros with a one at the index: y[..., v] = 1 where v = x[...], else 0.
//
// An index outside [0, depth) gives a row of zeros; with from_end=true those in [-depth, 0) count from the end. A rank
// that holds part of v compares with its own range.

#include <algorithm>

#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  check_integer(call.operands[0].dtype);
  const std::int64_t depth = call.attributes.integer("depth", 0);
  if (depth < 1) throw error("depth is {} but must be at least 1; write for example (depth=10)", depth);
  call.attributes.flag("from_end");  // throws if it is none
  const std::string name = call.attributes.text("dtype", "f32");
  const auto dtype = dtype_of(name);
  if (!dtype) throw error("dtype={} is no element type; write for example (dtype=f32)", name);
  Shape shape = call.operands[0].shape;
  shape.push_back(depth);
  return {{*dtype, std::move(shape)}};
}

void kernel(const KernelCall& call) {
  const Integers indices(call.operands[0]);
  const LoopBox::Part& v = call.loop("v");
  const std::int64_t depth = call.attributes.integer("depth", 0);
  const std::int64_t end = call.attributes.flag("from_end") ? depth : 0;
  visit(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto y = call.results[0].as<T>();
    std::fill(y.begin(), y.end(), T(0));
    for (std::int64_t r = 0; r < indices.size(); ++r) {
      const std::int64_t index = indices[r];
      const std::int64_t at = (index < 0 ? index + end : index) - v.offset;
      if (at >= 0 && at < v.extent) y[static_cast<std::size_t>(r * v.extent + at)] = T(1);
    }
  });
}

}  // namespace

std::vector<OpDef> one_hot() {
  return {{.name = "one_hot",
           .doc = "y[..., v] = 1 where v = x[...], else 0; v runs to `depth`",
           .attributes = {"depth", "dtype", "from_end"},
           .defaults = {{"dtype", std::string("f32")}, {"from_end", false}},
           .rule = "... -> ... v",
           .infer = infer,
           .kernel = kernel,
           .samples = {"i32[4]<6 (depth=6)", "i64[2,6]<4 (depth=4)", "i32[6]<4 (depth=4, dtype=f64)",
                       "i64[4]<6 (depth=6, from_end=true)"},
           .torch = {.line = "one_hot({0}, {depth}, {v.offset}, {v.extent}, {from_end}, {dtype})",
                     .functions = R"(
def one_hot(x, depth, first, count, from_end, dtype):
    at = torch.where(x < 0, x + depth, x) if from_end else x
    return (at.unsqueeze(-1) == torch.arange(first, first + count, device=x.device)).to(dtype)
)"},
           .jax = {.functions = R"(
def one_hot(x, depth, first, count, from_end, dtype):
    at = jnp.where(x < 0, x + depth, x) if from_end else x
    return (at[..., None] == first + jnp.arange(count)).astype(dtype)
)"}}};
}

}  // namespace shardwright::ops
