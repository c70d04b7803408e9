// Leaves whose memory is theirs for the whole step, whatever reads them when.
#pragma once

#include "shardwright/graph/graph.h"

namespace shardwright {

/// A parameter, a state, an accumulator, or what another stage sends once a step for all micro-batches.
bool is_kept_leaf(const Node& node);

}  // namespace shardwright
