// Makes communicators of processes (mpi.h).
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>

#include "shardwright/runtime/communicator/communicator.h"
#include "shardwright/runtime/communicator/heartbeat.h"

namespace shardwright {

class SharedMemory;

/// Of the processes of `members`, which are `ranks` of the run; it takes them over. The heartbeat outlives it. `memory` is that of all
/// communicators of these ranks.
std::unique_ptr<Communicator> mpi_communicator(MPI_Comm members, std::size_t transfers, Heartbeat& heartbeat,
                                               std::span<const int> ranks,
                                               std::shared_ptr<SharedMemory> memory);

}  // namespace shardwright
