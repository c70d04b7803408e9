// What degrees ask of the data that come into a network.
#pragma once

#include "shardwright/graph/calls.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// Throws: Error unless dp divides every batch that comes into `graph`, a network or a stage of it, and cp every sequence.
void check_data(const Graph& graph, const Calls& calls, const Degrees& degrees);

}  // namespace shardwright
