// What a framework keeps on a device otherwise than a planned arena does: named profiles, with the sources of their
// figures in docs/cost-model.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shardwright/base/dtype.h"

namespace shardwright {

struct Framework {
  std::string name;
  std::string doc;
  std::int64_t fixed_bytes = 0;  // of buckets in which gradients are reduced and weights gathered
  std::int64_t group_bytes = 0;  // that the communication library keeps for each group a device is in
  double bf16_gradient = 0;      // bytes of the gradients of an element of a bf16 parameter, at least
  double f16_gradient = 0;       // the same of f16
  double score_bytes = 0;        // of each score of a class, beside those in the program: copies in f32
  double slack = 0;              // of what comes and goes in a step, what the allocator holds besides

  double gradient_bytes(DType parameter) const {
    return parameter == DType::bf16 ? bf16_gradient : parameter == DType::f16 ? f16_gradient : 0;
  }
};

/// What to call our own, whose memory is the arena.
constexpr std::string_view own_framework = "ours";

std::span<const Framework> frameworks();
/// Throws: Error that lists them.
const Framework& framework_called(std::string_view name);

}  // namespace shardwright
