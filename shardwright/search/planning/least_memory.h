// What no plan undercuts: parameters and states that a step updates lie somewhere, whatever is split how.
#pragma once

#include <cstdint>

#include "shardwright/graph/graph.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {

/// Bytes of the device that holds most, at least: what `step` updates is there on all devices together in one copy or more.
/// What is only read may be left out of programs, and what is computed may share room, so that neither is counted.
/// Cost: O(updates).
std::int64_t least_bytes(const Graph& step, int devices);

}  // namespace shardwright
