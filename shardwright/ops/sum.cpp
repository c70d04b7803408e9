// The sum of any number of operands of one shape: how the contributions to a gradient come together.

#include <algorithm>
#include <array>

#include "shardwright/graph/builder.h"
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

/// Block by block, so that the sum is kept in the compute type and the result may overwrite any operand.
void kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto y = call.results[0].as<T>();
    std::array<Compute<T>, 512> block;
    for (std::size_t start = 0; start < y.size(); start += block.size()) {
      const std::size_t n = std::min(block.size(), y.size() - start);
      block.fill(0);
      for (const TensorView& operand : call.operands) {
        const T* const x = operand.as<T>().data() + start;
        for (std::size_t i = 0; i < n; ++i) block[i] += static_cast<Compute<T>>(x[i]);
      }
      for (std::size_t i = 0; i < n; ++i) y[start + i] = static_cast<T>(block[i]);
    }
  });
}

}  // namespace

std::vector<OpDef> sum() {
  return {{
      .name = "sum",
      .doc = "y = sum of all operands",
      .rule_for = [](const Call& c) { return repeated(c.operands.size(), "...") + " -> ..."; },
      .linear_for = linear,
      .infer = infer,
      .gradient = [](Gradient& g) { return std::vector<ValueId>(g.operand_count(), g.dy()); },
      .kernel = kernel,
      .samples = {"f32[4,6]", "f32[4,6], f32[4,6]", "f32[2,6,4], f32[2,6,4], f32[2,6,4]"},
      .overwrites = {0},
  }};
}

}  // namespace shardwright::ops
