// What ranks of a host show each other beside their arenas: groups, meetings, and that one has failed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shardwright/runtime/communicator/shared.h"

namespace shardwright {

/// Begins each rank's share of the control window. Behind it lie the groups that the rank has made, and from
/// the end downwards the meetings.
struct Control {
  explicit Control(std::size_t b) : bytes(b) {}

  alignas(64) std::size_t bytes;           // of the share
  std::atomic<std::uint64_t> barriers{0};  // to which the rank has come
  std::atomic<int> failure{0};             // of the host's first rank: 1 while the message is written, then 2
  char message[1000] = {};
  alignas(64) std::atomic<std::size_t> groups{0};  // how many
  std::size_t meeting_bytes = 0;

  Group& group(std::size_t i) { return reinterpret_cast<Group*>(this + 1)[i]; }
  std::byte* end() { return reinterpret_cast<std::byte*>(this) + bytes; }
  bool has_room(std::size_t more) const {
    return sizeof(Control) + groups * sizeof(Group) + meeting_bytes + more <= bytes;
  }
};

}  // namespace shardwright
