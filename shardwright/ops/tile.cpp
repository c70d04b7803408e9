// A tensor laid side by side with itself: dim d of the result is repeats[d] copies of dim d of x, one behind the
// other. The copies may be split; the elements within one only where every rank has but one copy.

#include <algorithm>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/strided.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  Type y = call.operands[0];
  const std::vector<std::int64_t> repeats = call.attributes.integers("repeats");
  if (repeats.size() != y.shape.size() ||
      std::any_of(repeats.begin(), repeats.end(), [](std::int64_t n) { return n < 1; }))
    throw error("repeats={} should be a number of at least 1 for each of the {} dims of {}", to_text(repeats),
                y.shape.size(), to_text(y));
  for (std::size_t d = 0; d < repeats.size(); ++d) y.shape[d] = element_count(Shape{repeats[d], y.shape[d]});
  return {y};
}

/// `i0 -> (copies0 i0)`
std::string rule(const Call& call) {
  const Shape &from = call.operands[0].shape, to = infer(call)[0].shape;
  std::vector<std::string> small, large;
  for (std::size_t d = 0; d < from.size(); ++d) {
    const bool is_one = from[d] == 1, is_same = from[d] == to[d];
    small.push_back(is_one && !is_same ? "1" : loop_name(d));
    large.push_back(is_same  ? loop_name(d)
                    : is_one ? fmt::format("copies{}", d)
                             : fmt::format("(copies{} i{})", d, d));
  }
  return fmt::format("{} -> {}", tensor_text(small), tensor_text(large));
}

/// The copies as dims of their own are summed up.
std::vector<ValueId> gradient(Gradient& g) {
  const Shape shape = g.type(g.in(0)).shape;
  const std::vector<std::int64_t> repeats = g.attributes().integers("repeats");
  Shape apart;
  std::vector<std::int64_t> copies;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (repeats[d] > 1) {
      copies.push_back(static_cast<std::int64_t>(apart.size()));
      apart.push_back(repeats[d]);
    }
    apart.push_back(shape[d]);
  }
  if (copies.empty()) return {g.dy()};
  return {g.call("reduce_sum", {g.call("reshape", {g.dy()}, {{"shape", apart}})}, {{"dims", copies}})};
}

void kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  Walk<2> walk;  // over y and x, which starts again with each copy
  std::int64_t y_stride = 1, x_stride = 1;
  for (std::size_t d = x.shape.size(); d-- > 0;) {
    require(y.shape[d] % x.shape[d] == 0, "tile of {} to {}", to_text(x.shape), to_text(y.shape));
    walk.surround({x.shape[d], {y_stride, x_stride}});
    walk.surround({y.shape[d] / x.shape[d], {y_stride * x.shape[d], 0}});
    y_stride *= y.shape[d];
    x_stride *= x.shape[d];
  }
  copy_stretched(walk, x, y);
}

}  // namespace

std::vector<OpDef> tile() {
  return {{.name = "tile",
           .doc = "dim d of y is repeats[d] copies of dim d of x, one behind the other",
           .attributes = {"repeats"},
           .rule_for = rule,
           .linear = "{0}",
           .infer = infer,
           .gradient = gradient,
           .localize =
               [](const Call& local) {
                 Attributes a = local.attributes;
                 std::vector<std::int64_t> repeats = local.results[0].shape;
                 for (std::size_t d = 0; d < repeats.size(); ++d) repeats[d] /= local.operands[0].shape[d];
                 a.set("repeats", repeats);
                 return a;
               },
           .kernel = kernel,
           .samples = {"f32[4,6] (repeats=[2,1])", "f32[2,3] (repeats=[6,2])", "f32[6,1] (repeats=[1,4])",
                       "f32[2,1,3] (repeats=[1,6,2])", "f32[] (repeats=[])"},
           .torch = {.line = "{0}.repeat({repeats})"},
           .jax = {.line = "jnp.tile({0}, {repeats})"}}};
}

}  // namespace shardwright::ops
