// What lies in a program's arena when it is fullest, by what it is for.
//
// A fold over its buffers, of which assign_buffers says what they are for and from which node to which they are alive:
// the peak is the node at which most bytes are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/lower/pipeline.h"

namespace shardwright {

enum class MemoryKind : std::uint8_t {
  parameters,
  optimizer_state,  // and other states that are kept from step to step
  gradients,        // of parameters, accumulated ones included
  activations,      // of the forward, read by the backward
  communication,    // what collectives read and make, gathered parameters included
  workspace         // all else, and what lies idle between the others
};
constexpr std::size_t memory_kinds = 6;
std::string_view name_of(MemoryKind kind);
MemoryKind kind_of(BufferKind kind);

using BytesByKind = std::array<std::int64_t, memory_kinds>;
std::int64_t total_of(const BytesByKind& bytes);

struct MemoryConsumer {
  std::string name;  // of a value, or of the one that it is a copy of
  MemoryKind kind = MemoryKind::workspace;
  std::int64_t bytes = 0;  // of all copies
  int copies = 1;          // side by side: of as many micro-batches in flight
};

/// Bytes of one device. All kinds together are the arena.
struct MemoryUse {
  BytesByKind bytes{};
  std::vector<MemoryConsumer> largest;  // at the peak, the largest first, a few

  std::int64_t of(MemoryKind kind) const { return bytes[static_cast<std::size_t>(kind)]; }
};

MemoryUse memory_use(const Program& program);
/// Of a device that runs the stages of `rank`: where they share memory, that of the stage with most there.
MemoryUse memory_use(const Pipeline& pipeline, int rank);

}  // namespace shardwright
