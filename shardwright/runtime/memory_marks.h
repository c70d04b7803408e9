// How much memory a run has really taken, beside what was planned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwright {

/// By rank; processes by their first rank.
struct MemoryMarks {
  std::vector<std::int64_t> planned;   // the arena
  std::vector<std::int64_t> measured;  // pages of it that have been touched
  std::vector<std::int64_t>
      processes;  // the most that the process has had in memory, everything included: VmHWM
};

/// Of `bytes` from `data`, those on pages that are in memory. Large arenas are zeros of the operating system: a page
/// comes into memory when it is first touched. Under MPI arenas are written when they are made, and all of them is.
std::int64_t resident_bytes(const std::byte* data, std::int64_t bytes);

/// VmHWM of this process.
std::int64_t most_bytes_of_process();

}  // namespace shardwright
