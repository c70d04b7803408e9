// How many micro-batches are alive at once (plan/lanes.h), without where they are: for searches, which ask often.
#pragma once

#include <vector>

#include "shardwright/plan/lanes.h"

namespace shardwright {

/// By part, of each life. Cost: linear in tasks, times the chunks of a stage.
std::vector<OfLives> slots_of_parts(const Pipelining& p);

}  // namespace shardwright
