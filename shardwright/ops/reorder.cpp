// A sequence brought into the order in which ranks share it evenly (sequence_order.h), or with `inverse` back.
//
//   y[.., i, ..] = x[.., place(i), ..] along dim `dim`, which stays whole

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/sequence_order.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::size_t reordered_dim(const Call& call) {
  return dim_of(call.attributes.integer("dim", 1), call.operands[0].shape);
}

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  call.attributes.flag("inverse");
  check_order(call.attributes.integer("order", 0), call.operands[0].shape[reordered_dim(call)]);
  return {call.operands[0]};
}

std::string rule(const Call& call) {
  std::vector<std::string> dims;
  const std::size_t whole = reordered_dim(call);
  for (std::size_t d = 0; d < call.operands[0].shape.size(); ++d)
    dims.push_back(loop_name(d, d == whole ? "^" : ""));
  return fmt::format("{0} -> {0}", tensor_text(dims));
}

std::vector<ValueId> gradient(Gradient& g) {
  Attributes attributes = g.attributes();
  attributes.set("inverse", !attributes.flag("inverse"));
  return {g.call("reorder", {g.dy()}, std::move(attributes))};
}

void kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  const std::size_t dim = dim_of(call.attributes.integer("dim", 1), x.shape);
  bring_into_order(y.data, x.data, x.dtype, x.shape, dim, call.attributes.integer("order", 0),
                   call.attributes.flag("inverse"));
}

}  // namespace

std::vector<OpDef> reorder() {
  const auto in_python = [](const char* library) {
    return [library](const Call& c) {
      const auto dim = static_cast<std::int64_t>(dim_of(c.attributes.integer("dim", 1), c.operands[0].shape));
      return fmt::format("reorder({}, {{0}}, {}, {{order}}, {{inverse}})", library, dim);
    };
  };
  const std::string functions = std::string(places_in_python) + R"(
def reorder(library, x, dim, order, inverse):
    places = places_in_sequence(library, 0, x.shape[dim], x.shape[dim], order)
    if inverse:
        places = library.argsort(places)
    return x[(slice(None),) * dim + (places,)]
)";
  return {
      {.name = "reorder",
       .doc = "the sequence along dim `dim` in `order` blocks, r-th from the begin beside r-th from the end",
       .attributes = {"dim", "inverse", "order"},
       .defaults = {{"dim", std::int64_t{1}}, {"inverse", false}, {"order", std::int64_t{0}}},
       .rule_for = rule,
       .linear = "{0}",
       .infer = infer,
       .gradient = gradient,
       .kernel = kernel,
       .samples = {"i32[2,8] (order=4)", "f32[2,12,3] (dim=1, order=4, inverse=true)",
                   "f32[8,6] (dim=0, order=8)"},
       .torch = {.line_for = in_python("torch"), .functions = functions},
       .jax = {.line_for = in_python("jnp"), .functions = functions}}};
}

}  // namespace shardwright::ops
