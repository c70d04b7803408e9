// Which row of a table an id is kept in, where there are more ids than rows: spread evenly, and the same on every machine and in every
// version.
//
//   y = (splitmix64(x) >> 1) mod rows     Steele, Lea, Flood 2014; an id below 0 is none and becomes -1

#include <limits>

#include "shardwright/base/random.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  check_integer(call.operands[0].dtype);
  const std::int64_t rows = call.attributes.integer("rows", 0);
  if (rows < 1 || rows > std::numeric_limits<std::int32_t>::max())
    throw error("rows is {} but must be from 1 to {}; write for example (rows=10)", rows,
                std::numeric_limits<std::int32_t>::max());
  return {{DType::i32, call.operands[0].shape}};
}

void kernel(const KernelCall& call) {
  const Integers ids(call.operands[0]);
  const auto rows = static_cast<std::uint64_t>(call.attributes.integer("rows", 0));
  const auto y = call.results[0].as<std::int32_t>();
  for (std::int64_t i = 0; i < ids.size(); ++i)
    y[static_cast<std::size_t>(i)] =
        ids[i] < 0 ? -1
                   : static_cast<std::int32_t>((splitmix64(static_cast<std::uint64_t>(ids[i])) >> 1U) % rows);
}

}  // namespace

std::vector<OpDef> hash() {
  return {{.name = "hash",
           .doc = "y = a row from 0 to `rows` - 1 for each id x, always the same; -1 for those below 0",
           .attributes = {"rows"},
           .rule = "... -> ...",
           .infer = infer,
           .kernel = kernel,
           .samples = {"i64[6]<12 (rows=5)", "i32[2,6]<12 (rows=1000000)"},
           .torch = {.line = "hash_ids({0}, {rows})", .functions = R"(
def hash_ids(ids, rows):
    """splitmix64, without its lowest bit."""
    x = ids.long() - 7046029254386353131
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    x = ((x ^ ((x >> 31) & 0x1FFFFFFFF)) >> 1) & 0x7FFFFFFFFFFFFFFF
    return torch.where(ids < 0, torch.full_like(x, -1), x % rows).int()
)"},
           .jax = {.functions = R"(
def hash_ids(ids, rows):
    """splitmix64, without its lowest bit."""
    x = ids.astype(jnp.uint64) + jnp.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> jnp.uint64(30))) * jnp.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> jnp.uint64(27))) * jnp.uint64(0x94D049BB133111EB)
    x = ((x ^ (x >> jnp.uint64(31))) >> jnp.uint64(1)) % jnp.uint64(rows)
    return jnp.where(ids < 0, -1, x.astype(jnp.int32)).astype(jnp.int32)
)"}}};
}

}  // namespace shardwright::ops
