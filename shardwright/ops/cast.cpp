// The same values in another element type.

#include "shardwright/graph/builder.h"
#include "shardwright/ops/block.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  const std::string to = call.attributes.text("to", "");
  const auto dtype = dtype_of(to);
  if (!dtype) throw error("to={} is no element type; write for example (to=f32)", to);
  return {{*dtype, call.operands[0].shape}};
}

std::vector<ValueId> gradient(Gradient& g) {
  const DType from = g.type(g.in(0)).dtype;
  if (!is_floating(from) || !is_floating(g.type(g.out()).dtype)) return {ValueId{}};
  return {g.call("cast", {g.dy()}, {{"to", std::string(name_of(from))}})};
}

BlockKernel block(const Call& call) {
  BlockKernel kernel;
  visit(call.operands[0].dtype, [&]<class From>(std::type_identity<From>) {
    visit(call.results[0].dtype, [&]<class To>(std::type_identity<To>) {
      kernel = [](const ElementBlock& b) {
        convert_elements<From, To>(b.operands[0], b.results[0], b.count);
      };
    });
  });
  return kernel;
}

}  // namespace

std::vector<OpDef> cast() {
  return {{.name = "cast",
           .doc = "y = x in the element type `to`",
           .attributes = {"to"},
           .rule = "... -> ...",
           .linear_for =
               [](const Call& call) {  // where nothing is rounded
                 const DType from = call.operands[0].dtype, to = infer(call)[0].dtype;
                 const bool is_exact =
                     is_floating(from) && is_floating(to) && (from == to || size_of(to) > size_of(from));
                 return std::string(is_exact ? "{0}" : "");
               },
           .infer = infer,
           .gradient = gradient,
           .block = block,
           .samples = {"f32[4,6] (to=f64)", "f32[4,6] (to=i32)", "f32[4,6] (to=bf16)", "i32[4,6] (to=f32)"},
           .overwrites = {0},
           .torch = {.line = "{0}.to({dtype})", .may_share = true},
           .jax = {.line = "{0}.astype({dtype})"}}};
}

}  // namespace shardwright::ops
