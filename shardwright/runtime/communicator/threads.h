// Communicators of ranks that are threads of one process: they read each other's memory (shared.h).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shardwright/runtime/communicator/communicator.h"
#include "shardwright/runtime/communicator/vigil.h"

namespace shardwright {

/// One communicator per rank, each for use by one thread. They share what they need and may be destroyed in
/// any order, once no thread is in a call. `timeout`: see vigil.h.
std::vector<std::unique_ptr<Communicator>> thread_communicators(
    int size, std::chrono::nanoseconds timeout = usual_timeout);

/// `work` with a communicator each on a thread for each of `size` ranks; returns when all have ended. A rank that throws
/// tells its peers, so that none waits for it.
/// Throws: what the lowest rank threw that was not told of another's failure; Error if threads cannot be started.
void on_threads(int size, const std::function<void(Communicator&)>& work);

}  // namespace shardwright
