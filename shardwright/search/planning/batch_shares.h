// Shares of the batch by the speed of devices: `batch_shares=speed`, as numbers.
#pragma once

#include "shardwright/cost/cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// `c` with the samples of a micro-batch of `graph`, a stage's, that each of dp has where it asks for as many as its devices are fast:
/// by what the kernels of the whole graph take on a device of each kind, the slowest of a replica's. Each has a sample at least.
/// Without shares where all would be equal. `devices`: the stage's, in the order of its ranks.
Constraints with_numbered_shares(Constraints c, const Graph& graph, const Calls& calls,
                                 const Cluster& devices);

}  // namespace shardwright
