// Sums of the update whose addends lie in several stages: whether all gradients are finite, and their norm, hang on a scalar of
// each parameter. A stage adds up its own and sends one.
#pragma once

#include <span>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// `graph`, a train step whose nodes have the stages `stage_of`, negative where all have them: in front of a sum of the update
/// stands one for each other stage that has several of its addends, which it reads instead. Nodes of the forward stay where
/// they are. Cost: linear.
Graph with_sums_of_stages(Graph graph, std::span<const int> stage_of);

}  // namespace shardwright
