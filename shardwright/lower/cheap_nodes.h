// Which forward nodes are cheap to compute again against the bytes that their results take: what `selected` recomputes.
//
// Cheap is what streams memory (cost/compute.h): its time is that of the bytes it reads and writes; and of products of
// activations those that make more bytes than they read, with few operations for each: scores. It is chosen where
// the results that the backward reads are more bytes than must be kept besides to compute them again, and where at most
// four times as many are read. What a result costs to have again:
//
//   price(v) = 0                                     if v is kept anyway, or chosen
//              bytes(v)                              if its node is not cheap
//              min(bytes(v), sum of price(operands)) otherwise: kept, or computed again in turn
//
// This is the cut between kept and recomputed values, taken value by value in the order of the graph.
#pragma once

#include <vector>

#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

struct CheapNodesQuestion {
  const Graph& graph;
  const Calls& calls;
  const std::vector<double>& bytes;  // per value, on one device
  const std::vector<bool>& is_kept;  // per value: whatever is chosen
  const std::vector<bool>& is_open;  // per node: may be chosen
};
/// Per node. Cost: O(nodes) times the length of chains of cheap nodes between values that the backward reads.
std::vector<bool> cheap_nodes(const CheapNodesQuestion& question);

}  // namespace shardwright
