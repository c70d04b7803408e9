// How much memory a run has really taken, beside what was planned.
#pragma once

#include <cstdint>
#include <vector>

namespace shardwright {

/// By rank; processes by their first rank.
struct MemoryMarks {
  std::vector<std::int64_t> planned;  // the arena
  std::vector<std::int64_t>
      measured;  // what of it takes memory (Backend::resident_bytes); under MPI all, because
                 // shared arenas are written when they are made
  std::vector<std::int64_t>
      processes;  // the most that the process has had in memory, everything included: VmHWM
};

/// VmHWM of this process.
std::int64_t most_bytes_of_process();

}  // namespace shardwright
