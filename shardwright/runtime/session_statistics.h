// What a step of a session moves and holds, of the rank that has most.
#pragma once

#include "shardwright/runtime/rank.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

/// Of one rank's list.
void add(SessionStatistics& most, const Executor& executor);

/// Of all ranks, by an all_reduce.
SessionStatistics largest(const SessionStatistics& own, const Rank& self);

}  // namespace shardwright
