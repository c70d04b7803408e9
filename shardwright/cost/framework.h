// What a framework keeps on a device otherwise than a planned arena does: named profiles, tables of numbers alone, with
// the sources of their figures in docs/cost-model.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shardwright/base/dtype.h"

namespace shardwright {

/// Bytes by the type of a parameter, of one of its elements.
struct ByParameterType {
  double bf16 = 0, f16 = 0, f32 = 0;

  double of(DType parameter) const {
    if (parameter == DType::bf16) return bf16;
    return parameter == DType::f16 ? f16 : parameter == DType::f32 ? f32 : 0;
  }
  bool operator==(const ByParameterType&) const = default;
};

struct Framework {
  std::string name;
  std::string doc;
  std::int64_t fixed_bytes = 0;          // whatever is computed: buckets, workspaces of libraries
  std::int64_t group_bytes = 0;          // that the communication library keeps for each group a device is in
  ByParameterType gradient = {};         // at least
  ByParameterType update_gradient = {};  // besides, while the update runs or always: split as states are
  double moment_bytes = 4;               // of each moment of an optimizer
  /// Gradients lie in buffers of their own and nowhere else: `gradient` is what they take, not the least of it.
  bool keeps_gradients = false;
  /// Weights in a short type lie beside their masters; else they are made of them where they are read.
  bool keeps_short_weights = true;
  /// A parameter that several stages read is a parameter of each, with gradients and states.
  bool copies_shared_parameters = false;
  std::int64_t vocabulary_multiple =
      1;                   // to which a device's share of the classes, and so of the vocabulary, is padded
  double score_bytes = 0;  // of each score of a class, beside those in the program: copies in f32
  double mask_bytes = 0;   // of each element that is drawn by chance, until the backward has been there
  /// Experts keep of the rows that come to them what goes into each of their products and comes out, as dense layers do.
  bool keeps_routed_rows = true;
  double slack = 0;    // of what comes and goes in a step, what the allocator holds besides
  double reserve = 0;  // of all that is allocated, what the allocator reserves besides

  /// By its allocator, for so much that is allocated.
  std::int64_t reserved(std::int64_t allocated) const {
    return allocated + static_cast<std::int64_t>(reserve * static_cast<double>(allocated));
  }
};

/// What to call our own, whose memory is the arena.
constexpr std::string_view own_framework = "ours";

std::span<const Framework> frameworks();
/// Throws: Error that lists them.
const Framework& framework_called(std::string_view name);

}  // namespace shardwright
