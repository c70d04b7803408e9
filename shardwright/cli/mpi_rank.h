// A command as one rank of those that mpirun has started: none begins before all can, and one that fails ends all, so
// that nobody waits for it.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "shardwright/cli/verb.h"
#include "shardwright/runtime/communicator/mpi.h"
#include "shardwright/runtime/start.h"

namespace shardwright {

/// Of an MPI run, the rank that does what one is enough for.
bool is_first_rank();

struct RankWork {
  /// Asks others for nothing, and returns what all have to be told alike; what it throws is a mistake that all hear of.
  std::function<std::vector<Agreement>(MpiProcess&)> prepare;
  std::function<int(MpiProcess&)> run;               // returns the exit status
  std::chrono::nanoseconds timeout = usual_timeout;  // of waiting for another rank
};

/// What --runtime says, or whoever has started this process.
enum class Runtime { threads, mpi };
/// Throws: Error if the two contradict each other.
Runtime runtime_of(const Arguments& arguments);
Flag runtime_flag();

/// Throws: Error unless there is a rank for each device.
void check_ranks(const Arguments& arguments, const MpiProcess& process);
/// Sessions whose ranks are the processes of the run, each one.
SessionStart start_on(MpiProcess& process);

/// `rank` where mpirun has started this process; else starts mpirun, with as many ranks as there are devices, and passes on
/// what the first says. Returns the exit status.
int run_over_mpi(const Arguments& arguments, Terminal& terminal, const std::function<int()>& rank);

/// Joins, prepares, and runs if all could prepare and agree; returns the exit status. What `run` throws is said in one line, and
/// ends the processes of all ranks.
int run_as_mpi_rank(const RankWork& work, Terminal& terminal);

}  // namespace shardwright
