// A pipeline's tasks in time, with what crosses between stages on its way: each stage has one way out and one way in on links of
// each kind, which what crosses at the same time shares, as in a step (lower/step.h) that is simulated, without what goes on within
// stages. Where gradients of inputs are kept until they are taken, there is room for all.
#pragma once

#include <vector>

#include "shardwright/plan/schedule.h"
#include "shardwright/search/automatic/pipeline_seconds.h"

namespace shardwright::automatic {

/// When the last task ends, of `parts` of the network; `crossings` are from each to the next, and back; none: at once. Cost: linear in tasks.
double seconds_of_tasks(const Pipelining& p, const std::vector<Pass>& parts,
                        const std::vector<Crossing>& crossings);

}  // namespace shardwright::automatic
