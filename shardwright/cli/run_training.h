// The steps of `train`: the loop (training/train.h) on threads or as one of the ranks that mpirun has started, with what the
// command prints of it.
#pragma once

#include "shardwright/cli/verb.h"

namespace shardwright {

/// Both return the exit status.
int train_on_threads(const Arguments& arguments, Terminal& terminal);
/// Starts mpirun, or is a rank that it has started.
int train_over_mpi(const Arguments& arguments, Terminal& terminal);

}  // namespace shardwright
