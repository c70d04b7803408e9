// Where the contract of communicators runs: on threads in shardwright_tests, on processes in mpi_tests.
#pragma once

#include <functional>

#include "shardwright/runtime/communicator/communicator.h"

namespace shardwright {

/// Runs `work` with a communicator for each of `ranks` ranks. Every rank has its own call; what `work`
/// captures may or may not be shared between them. Skips the test if there are not so many ranks.
void on_each_rank(int ranks, const std::function<void(Communicator&)>& work);

}  // namespace shardwright
