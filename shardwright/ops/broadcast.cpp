// A tensor repeated along new and size-1 dims, right-aligned as in numpy.

#include "shardwright/graph/builder.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/strided.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  const Type& x = call.operands[0];
  Shape shape = call.attributes.integers("shape");
  element_count(shape);  // none is negative
  if (broadcast_shape(x.shape, shape) != shape)
    throw error("{} does not broadcast to shape={}: right-aligned, its dims must be equal to those or 1",
                to_text(x), to_text(shape));
  return {{x.dtype, std::move(shape)}};
}

std::string rule(const Call& call) {
  const Shape& from = call.operands[0].shape;
  const Shape to = call.results.empty() ? infer(call)[0].shape : call.results[0].shape;
  const std::size_t extra = to.size() - from.size();
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < from.size(); ++d)
    dims.push_back(from[d] == to[extra + d] ? loop_name(extra + d) : "1");
  return fmt::format("{} -> {}", tensor_text(dims), tensor_text(to.size()));
}

void kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  copy_stretched(broadcast_walk(x.shape, y.shape), x, y);
}

}  // namespace

std::vector<OpDef> broadcast() {
  return {{.name = "broadcast",
           .doc = "x repeated along new and size-1 dims up to `shape`",
           .attributes = {"shape"},
           .rule_for = rule,
           .linear = "{0}",
           .infer = infer,
           .gradient = [](Gradient& g) { return std::vector{unbroadcast(g, g.dy(), g.type(g.in(0)).shape)}; },
           .localize =
               [](const Call& local) {
                 Attributes a = local.attributes;
                 a.set("shape", local.results[0].shape);
                 return a;
               },
           .kernel = kernel,
           .samples = {"f32[6] (shape=[4,6])", "f32[4,1] (shape=[2,4,6])", "f32[] (shape=[4,6])",
                       "f32[6,1,4] (shape=[6,2,4])"},
           .torch = {.line = "{0}.expand({shape})", .may_share = true},
           .jax = {.line = "jnp.broadcast_to({0}, {shape})"}}};
}

}  // namespace shardwright::ops
