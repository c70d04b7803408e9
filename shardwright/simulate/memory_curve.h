// Bytes alive in a rank's arenas over time: a fold of its programs' buffers over a step that ran or was simulated.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/simulate/memory.h"
#include "shardwright/simulate/step_trace.h"

namespace shardwright {

struct MemoryPoint {
  std::int64_t time = 0;  // as of events
  std::int64_t bytes = 0;

  bool operator==(const MemoryPoint&) const = default;
};

/// The same by what the bytes are for.
struct MemoryMoment {
  std::int64_t time = 0;
  BytesByKind bytes{};
};

/// Of the rank of `step`, where they change. What an arena has idle between its buffers is not counted, nor slots that no micro-batch is in.
/// Cost: linear in buffers and events.
std::vector<MemoryPoint> memory_over_time(const Pipeline& pipeline, const StepTrace& trace,
                                          const RankStep& step);
std::vector<MemoryMoment> memory_by_kind(const Pipeline& pipeline, const StepTrace& trace,
                                         const RankStep& step);

}  // namespace shardwright
