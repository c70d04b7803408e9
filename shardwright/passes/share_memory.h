// One memory for several programs of a network, each for batches of another size, of which one runs at a time: parameters and states
// lie in the same places in all of them, and whatever else a step needs lies around them. So a further program takes no memory but
// where its steps need more than those of all others.
#pragma once

#include <vector>

#include "shardwright/lower/pipeline.h"

namespace shardwright {

/// The same programs with their buffers so placed, and arenas of one size. Places are those of the first, which should be the largest.
/// Throws: Error if a parameter or state is another one in one of them, or lies otherwise on some rank.
/// No program may keep anything on the host.
std::vector<Pipeline> sharing_memory(std::vector<Pipeline> pipelines);

/// Throws: Error if `one` and `other` cannot be so placed.
void check_shares(const Pipeline& one, const Pipeline& other);

}  // namespace shardwright
