// Structures that differ by one decision: what forecasts get wrong of a structure they get wrong of these, too, so that the best
// of them is seldom known before their programs are.
#pragma once

#include "shardwright/search/automatic/structure.h"

namespace shardwright::automatic {

/// `b` differs from `a` in one of: schedule, level, sequence parallelism, micro-batches, recompute with or without these; or a factor
/// goes from one degree to another, with or without other micro-batches.
bool are_neighbours(const Constraints& a, const Constraints& b);

}  // namespace shardwright::automatic
