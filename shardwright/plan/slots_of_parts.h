// How many micro-batches are alive at once (plan/lanes.h), without where they are: for searches, which ask often.
#pragma once

#include <vector>

#include "shardwright/plan/schedule.h"

namespace shardwright {

/// By part. Cost: linear in tasks, times the chunks of a stage.
std::vector<int> slots_of_parts(const Pipelining& p);

}  // namespace shardwright
