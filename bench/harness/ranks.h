// Ranks that a benchmark measures: threads of its process, or processes of the same program under mpirun.
//
//   if (is_rank_of_mpi()) return run_rank(shared_bytes, work);
//   run_threads(ranks, shared_bytes, work);
//   run_mpi(ranks, options);  // starts the program again, which comes to the first line
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "bench/harness/measure.h"
#include "shardwright/runtime/communicator/communicator.h"

namespace shardwright {

/// One rank's side of the measurement. Ranks are pinned, each to a core of its own as far as there are enough.
struct TeamRank {
  std::string runtime;  // `threads` or `mpi`
  int rank = 0;
  int size = 1;
  std::function<std::unique_ptr<Communicator>()> communicator;  // a new one; all ranks ask for it together
  std::span<std::byte> shared;                                  // holds zeros; the same memory on all ranks
};
using TeamWork = std::function<void(const TeamRank&)>;

void run_threads(int ranks, std::size_t shared_bytes, const TeamWork& work);

bool is_rank_of_mpi();
/// In a process that run_mpi has started: takes part as its rank.
void run_rank(std::size_t shared_bytes, const TeamWork& work);
/// Throws: Error if mpirun or a rank ends with an error.
void run_mpi(int ranks, const BenchOptions& options);

}  // namespace shardwright
