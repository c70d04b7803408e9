#include "shardwright/simulate/step_parts.h"

namespace shardwright {
namespace {

/// `parts` with what they leave of `whole`.
StepParts with_rest(StepParts parts, double whole) {
  parts.other = whole - (parts.compute + parts.communication + parts.bubble + parts.recompute);
  return parts;
}

}  // namespace

StepParts parts_of(const Estimate& e) {
  return with_rest({.compute = e.compute_seconds - e.recompute_seconds,
                    .communication = e.exposed_communication_seconds,
                    .bubble = e.bubble_seconds,
                    .recompute = e.recompute_seconds},
                   e.step_seconds());
}

StepDifference difference(const Estimate& a, const Estimate& b) {
  StepDifference out{.step_seconds = b.step_seconds() - a.step_seconds(),
                     .arena_bytes = b.arena_bytes - a.arena_bytes};
  const StepParts of_a = parts_of(a), of_b = parts_of(b);
  for (const auto& [name, part] : step_parts) out.seconds.*part = of_b.*part - of_a.*part;
  out.seconds = with_rest(out.seconds, out.step_seconds);
  for (std::size_t k = 0; k < memory_kinds; ++k) out.bytes[k] = b.memory.bytes[k] - a.memory.bytes[k];
  return out;
}

}  // namespace shardwright
