// What lies on a device from a stage, without the gaps of its arena: from step to step, and of one micro-batch in each of
// its tasks. A schedule strings these together (simulate/framework_memory.h).
#pragma once

#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/simulate/memory.h"

namespace shardwright {

constexpr std::size_t index_of(MemoryKind kind) { return static_cast<std::size_t>(kind); }

/// Bytes that are alive from node to node, both included, beside the buffers of a program.
struct Besides {
  MemoryKind kind = MemoryKind::workspace;
  double bytes = 0;
  int begin = 0, end = 0;  // nodes
};

struct StageBytes {
  BytesByKind lasting{};  // the whole step, once
  OfPhases<BytesByKind>
      most{};  // of a micro-batch at the fullest node of a task; the update's with the last one
  OfPhases<BytesByKind> after{};  // of a micro-batch, when a task is over
};

/// Of stage `stage`; `with_gradients`: also what parameters' gradients and their sums take.
/// Cost: linear in buffers and nodes.
StageBytes stage_bytes(const Pipeline& pipeline, int stage, const std::vector<Besides>& besides,
                       bool with_gradients);

/// Most that the devices of a group have of the micro-batches of their stages at once, beside what lasts.
BytesByKind most_at_once(const Pipeline& pipeline, int group, const std::vector<StageBytes>& stages);

void add(BytesByKind& to, const BytesByKind& more, std::int64_t times = 1);

}  // namespace shardwright
