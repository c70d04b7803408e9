// Where tests that need several ranks run: on threads in shardwright_tests, on processes in mpi_tests.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "shardwright/runtime/communicator/communicator.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

/// How many ranks there can be: as many as mpirun has started, or any number of threads; and which of the two they
/// are.
int most_ranks();
bool ranks_are_processes();

/// Runs `work` with a communicator for each of `ranks` ranks. Every rank has its own call; what `work`
/// captures may or may not be shared between them. Skips the test if there are not so many ranks.
void on_each_rank(int ranks, const std::function<void(Communicator&)>& work);
/// Likewise, and they wait for each other no longer than vigil.h says.
void on_each_rank(int ranks, std::chrono::nanoseconds timeout,
                  const std::function<void(Communicator&)>& work);

/// A session of `program` on ranks 0 to N-1; null on a process whose rank is not among them. Skips the test, and is null,
/// if there are not so many ranks.
std::unique_ptr<Session> session_of(Pipeline program, SessionOptions options);

}  // namespace shardwright
