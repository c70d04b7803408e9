// Rows that are kept from micro-batch to micro-batch: the oldest make room for the newest.
//
//   y = x without its first n rows, and behind them the n rows of fresh

#include <cstring>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::string rule(const Call& call) {
  check_count(call, 2);
  std::string dims;
  for (std::size_t d = 1; d < call.operands[0].shape.size(); ++d) dims += fmt::format(" i{}", d);
  return fmt::format("n^{0}, f^{0} -> n^{0}", dims);
}

std::vector<Type> infer(const Call& call) {
  check_count(call, 2);
  const Type &x = call.operands[0], &fresh = call.operands[1];
  check_number(x.dtype);
  check_same_dtype(call, 0, 1);
  if (x.shape.empty() || fresh.shape.size() != x.shape.size() ||
      !std::equal(x.shape.begin() + 1, x.shape.end(), fresh.shape.begin() + 1) || fresh.shape[0] > x.shape[0])
    throw error(
        "x is {} and fresh {}; they should be equal but for their first dims, and fresh have no more rows",
        to_text(x), to_text(fresh));
  return {x};
}

void kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &fresh = call.operands[1], &y = call.results[0];
  const auto element = static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t all = x.size() * element, last = fresh.size() * element;
  require(last <= all && y.size() == x.size(), "{} bytes are put behind {}", last, all);
  std::memmove(y.data, x.data + last, static_cast<std::size_t>(all - last));
  std::memcpy(y.data + (all - last), fresh.data, static_cast<std::size_t>(last));
}

}  // namespace

std::vector<OpDef> push() {
  return {{.name = "push",
           .doc = "y = x without its first rows, and the rows of fresh behind them",
           .rule_for = rule,
           .linear = "{0,1}",
           .infer = infer,
           .kernel = kernel,
           .samples = {"f32[6,4], f32[2,4]", "i32[6]<12, i32[3]<12"},
           .overwrites = {0},
           .torch = {.line = "torch.cat([{0}[{1}.shape[0]:], {1}])"},
           .jax = {.line = "jnp.concatenate([{0}[{1}.shape[0]:], {1}])"}}};
}

}  // namespace shardwright::ops
