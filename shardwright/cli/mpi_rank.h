// A command as one rank of those that mpirun has started: none begins before all can, and one that fails ends all, so
// that nobody waits for it.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "shardwright/cli/verb.h"
#include "shardwright/runtime/communicator/mpi.h"

namespace shardwright {

/// Of an MPI run, the rank that does what one is enough for.
bool is_first_rank();

struct RankWork {
  /// Asks others for nothing, and returns what all have to be told alike; what it throws is a mistake that all hear of.
  std::function<std::vector<Agreement>(MpiProcess&)> prepare;
  std::function<int(MpiProcess&)> run;               // returns the exit status
  std::chrono::nanoseconds timeout = usual_timeout;  // of waiting for another rank
};

/// Joins, prepares, and runs if all could prepare and agree; returns the exit status. What `run` throws is said in one line, and
/// ends the processes of all ranks.
int run_as_mpi_rank(const RankWork& work, Terminal& terminal);

}  // namespace shardwright
