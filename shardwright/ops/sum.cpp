// The sum of any number of operands of one shape: how the contributions to a gradient come together.

#include <algorithm>
#include <array>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/block.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::string repeated(std::size_t count, std::string_view what) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += fmt::format("{}{}", i ? ", " : "", what);
  return out;
}

std::string linear(const Call& call) {
  std::string out;
  for (std::size_t i = 0; i < call.operands.size(); ++i) out += fmt::format("{}{}", i ? "," : "{", i);
  return out + "}";
}

std::vector<Type> infer(const Call& call) {
  if (call.operands.empty()) throw error("has no operands but takes at least 1");
  return {common_type(call, call.operands.size())};
}

/// Strip by strip, so that the sum is kept in the compute type and the result may overwrite any operand.
template <class T>
void add_up(const ElementBlock& block) {
  using C = Compute<T>;
  constexpr std::int64_t strip = 512;
  std::array<C, strip> sum;
  for (std::int64_t start = 0; start < block.count; start += strip) {
    const std::int64_t n = std::min(strip, block.count - start);
    for (std::size_t k = 0; k < block.operands.size(); ++k)
      vectorized([to = sum.data(), x = block.operand<T>(k) + start, n, is_first = k == 0] {
        for (std::int64_t i = 0; i < n; ++i)
          to[i] = is_first ? static_cast<C>(x[i]) : to[i] + static_cast<C>(x[i]);
      });
    vectorized([y = block.result<T>(0) + start, from = sum.data(), n] {
      for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(from[i]);
    });
  }
}

/// Two addends need no sum beside the result.
BlockKernel block(const Call& call) {
  if (call.operands.size() == 2) return floating_elements<2>(call, [](auto a, auto b) { return a + b; });
  BlockKernel kernel;
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) { kernel = add_up<T>; });
  return kernel;
}

}  // namespace

std::vector<OpDef> sum() {
  return {{.name = "sum",
           .doc = "y = sum of all operands",
           .rule_for = [](const Call& c) { return repeated(c.operands.size(), "...") + " -> ..."; },
           .linear_for = linear,
           .infer = infer,
           .gradient = [](Gradient& g) { return std::vector<ValueId>(g.operand_count(), g.dy()); },
           .block = block,
           .samples = {"f32[4,6]", "f32[4,6], f32[4,6]", "f32[2,6,4], f32[2,6,4], f32[2,6,4]"},
           .overwrites = {0},
           .torch = {.line_for =
                         [](const Call& c) {
                           if (c.operands.size() > 2 && size_of(c.operands[0].dtype) < sizeof(float))
                             return std::string("once(lambda *x: sum(x), {*})");
                           std::string out = "{0}";
                           for (std::size_t i = 1; i < c.operands.size(); ++i)
                             out += fmt::format(" + {{{}}}", i);
                           return out;
                         },
                     .may_share = true}}};
}

}  // namespace shardwright::ops
