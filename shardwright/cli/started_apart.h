// Copies of this program that something else has started, and that cannot join each other by MPI: with MindSpore's dynamic
// networking (MS_ROLE, MS_WORKER_NUM, MS_SCHED_HOST, MS_SCHED_PORT, MS_NODE_ID) or its rank tables (RANK_TABLE_FILE and
// RANK_ID), or by an srun without PMIx. They find each
// other at a port, and the ranks are then started by mpirun (runtime/launch/assembly.h).
#pragma once

#include <optional>
#include <string>

#include "shardwright/cli/job.h"
#include "shardwright/cli/verb.h"

namespace shardwright {

struct StartedApart {
  bool is_first = false;  // gathers the others, and starts the job
  bool has_rank = true;   // it is one of the ranks itself; a scheduler is none
  int ranks = 1;
  int own = 0;  // which of them
  std::string address;
  int port = 0;
  std::string called;  // what says the port: `MS_SCHED_PORT`
};

/// What the environment says of it; nothing if it says nothing, or mpirun has started this process.
/// Throws: Error that names a variable that is missing or wrong.
std::optional<StartedApart> started_apart();

/// By variables of MindSpore: then whoever reads them has started all ranks, of whatever program.
bool is_started_as_mindspore();

/// The job's program as its ranks; but for the program, the first says what the job is.
int run_apart(const StartedApart& start, Job job, Terminal& terminal);
/// The verb's words as one job. Returns the exit status, which is that of all.
int run_apart(const StartedApart& start, const Arguments& arguments, Terminal& terminal);

}  // namespace shardwright
