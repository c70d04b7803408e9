// From a prepared program to a session of it.
#pragma once

#include <functional>
#include <memory>

#include "shardwright/runtime/prepare.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

/// Starts the ranks of a program: as threads, or as one of several processes. Of the options the devices are the program's.
using SessionStart = std::function<Session(Prepared, SessionOptions)>;

Session start_threads(Prepared program, SessionOptions options = {});

/// With room for so many transfers.
using CommunicatorFor = std::function<std::unique_ptr<Communicator>(std::size_t transfers)>;
/// As one rank; the others are in other processes, or elsewhere in this one.
Session start_rank(Prepared program, const CommunicatorFor& communicator, SessionOptions options = {});

}  // namespace shardwright
