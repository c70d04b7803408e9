// A pipeline's tasks in time, with what crosses between stages on its way: each stage has one way out and one way in, which what
// crosses at the same time shares, as in a step (lower/step.h) that is simulated, without what goes on within stages.
#pragma once

#include <vector>

#include "shardwright/plan/schedule.h"
#include "shardwright/search/automatic/pipeline_seconds.h"

namespace shardwright::automatic {

/// When the last task ends, of `parts` of the network; `crossings` are seconds from each to the next, and back, if nothing else crosses;
/// none: at once. Cost: linear in tasks.
double seconds_of_tasks(const Pipelining& p, const std::vector<Pass>& parts,
                        const std::vector<double>& crossings);

}  // namespace shardwright::automatic
