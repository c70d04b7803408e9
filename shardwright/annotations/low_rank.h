// Pairs of narrow and wide products that stand beside a product with a frozen weight, as adapters do:
//
//   y = x W          low = x A          high = low B          y + high
//
// A and B are read off what is frozen and who reads what; no operator is named.
#pragma once

#include <map>
#include <set>

#include "shardwright/graph/calls.h"

namespace shardwright {

struct LowRank {
  std::set<NodeId> low;
  std::map<NodeId, ValueId> beside;  // of high: the y that it is added to
};

LowRank low_rank_of(const Graph& graph, const Calls& calls);

}  // namespace shardwright
