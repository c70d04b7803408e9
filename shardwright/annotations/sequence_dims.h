// Dims of the sequence: the one behind the batch, of tokens or of what is [batch, sequence, features], and all that come of
// it on the way through the network.
#pragma once

#include <vector>

#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// Per value and dim, of the forward.
using SequenceDims = std::vector<std::vector<bool>>;
SequenceDims sequence_dims(const Graph& graph, const Calls& calls);

}  // namespace shardwright
