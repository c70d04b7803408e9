// The strategies that the described system offers for an operator (facts.md 3.7).
#pragma once

#include <vector>

#include "shardwright/search/planning/problem.h"

namespace shardwright::dynamic {

/// Of the forward operator `id`, the unsplit one first; one if it is fixed. On mesh 0 of `fixed`, whose axes have prime sizes.
/// Cost: as many as there are ways to deal log2(devices) axes in order to the loop dims or none, C(log2(devices) + loop
/// dims, loop dims).
std::vector<Strategy> described_candidates(const Problem& problem, const FixedChoices& fixed, NodeId id,
                                           const Rule& rule, const SearchOptions& options);

}  // namespace shardwright::dynamic
