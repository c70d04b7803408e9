// What was computed for a piece of a sequence elsewhere, added to what is there: gradients of keys that went round
// (attention_turns.h).
//
//   y[piece] = x[piece] + more[piece + turn mod pieces]

#include <algorithm>
#include <optional>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

struct Turn {
  std::int64_t pieces = 1, turn = 0;
  explicit Turn(const Attributes& a) : pieces(a.integer("pieces", 1)), turn(a.integer("turn", 0)) {}
};

std::vector<Type> infer(const Call& call) {
  check_count(call, 2);
  check_floating(call.operands[0].dtype);
  if (call.operands[0] != call.operands[1] || call.operands[0].shape.size() != 4)
    throw error("operands {} and {} should be alike, of 4 dims", to_text(call.operands[0]),
                to_text(call.operands[1]));
  const std::int64_t pieces = call.attributes.integer("pieces", 1), turn = call.attributes.integer("turn", 0);
  if (pieces < 1 || call.operands[0].shape[2] % pieces || turn < 0 || turn >= pieces)
    throw error("turn={} of pieces={} of {}: is none", turn, pieces, to_text(call.operands[0]));
  const std::string to = call.attributes.text("to", "");
  const auto dtype = to.empty() ? std::optional(call.operands[0].dtype) : dtype_of(to);
  if (!dtype || !is_floating(*dtype)) throw error("to={} is no floating type", to);
  return {{*dtype, call.operands[0].shape}};
}

std::string rule(const Call& call) {
  const Turn turns(call.attributes);
  const std::int64_t shift =
      turns.turn * (call.operands[0].shape[2] / std::max<std::int64_t>(1, turns.pieces));
  return fmt::format("b h t d, b h t~(1 1 {0} {0} round) d -> b h t d", shift);
}

void kernel(const KernelCall& call) {
  const Turn turns(call.attributes);
  const auto& shape = call.operands[0].shape;
  const std::int64_t all = call.loop("t").size, row = shape[3], here = shape[2];
  const std::int64_t shift = here == all ? turns.turn * (all / turns.pieces) : 0;  // else it lies so already
  visit_floating(call.operands[0].dtype, [&]<class C>(std::type_identity<C>) {
    visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
      const C *const x = call.operands[0].as<C>().data(), *const more = call.operands[1].as<C>().data();
      T* const y = call.results[0].as<T>().data();
      for (std::int64_t n = 0; n < shape[0] * shape[1]; ++n)
        for (std::int64_t t = 0; t < here; ++t) {
          const std::int64_t to = (n * here + t) * row, from = (n * here + (t + shift) % here) * row;
          for (std::int64_t f = 0; f < row; ++f)
            y[to + f] = static_cast<T>(static_cast<Compute<T>>(static_cast<Compute<C>>(x[to + f]) +
                                                               static_cast<Compute<C>>(more[from + f])));
        }
    });
  });
}

}  // namespace

std::vector<OpDef> bring_home() {
  return {{.name = "bring_home",
           .doc = "y = x + what lies `turn` of `pieces` pieces on, in the element type `to`",
           .attributes = {"pieces", "to", "turn"},
           .rule_for = rule,
           .linear_for =
               [](const Call& call) {  // rounded to another type parts do not add up
                 return std::string(call.attributes.text("to", "").empty() ? "{0,1}" : "");
               },
           .infer = infer,
           .kernel = kernel,
           .samples = {"f32[2,2,6,4], f32[2,2,6,4] (pieces=3, turn=1)",
                       "f32[2,2,6,4], f32[2,2,6,4] (pieces=2, turn=1, to=f32)"}}};
}

}  // namespace shardwright::ops
