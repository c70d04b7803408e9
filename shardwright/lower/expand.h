// Operators whose dims `k*` a plan splits, replaced by what they are made of: one kernel cannot compute them on a part
// alone, several can with a reduction in between, which lowering adds like any other. Those of which a dim `k@` goes round
// become turns, in which each part of it is had as a window of it: what sends the parts is the halo that lowering adds.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct Expanded {
  Graph graph;
  std::vector<NodeId> origins;  // per node of it the node that it is, or stands for part of
};

/// Whether some operator of `graph` has to be, or its sequence stands in `order` blocks (sequence_order.h).
bool has_to_be_expanded(const Graph& graph, std::int64_t order = 0);

/// `graph`, whose compute nodes all have strategies, without operators of which a dim `k*` or `k@` is split, and with its
/// sequence in `order` blocks. Values keep their ids, names and layouts.
Expanded expanded(const Graph& graph, std::int64_t order = 0);

}  // namespace shardwright
