// Communicators of ranks that are threads of one process: they read each other's memory (shared.h).
#pragma once

#include <memory>
#include <vector>

#include "shardwright/runtime/communicator/communicator.h"

namespace shardwright {

/// One communicator per rank, each for use by one thread. They share what they need and may be destroyed in
/// any order, once no thread is in a call.
std::vector<std::unique_ptr<Communicator>> thread_communicators(int size);

}  // namespace shardwright
