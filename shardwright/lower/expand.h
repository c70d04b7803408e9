// Operators whose dims `k*` a plan splits, replaced by what they are made of: one kernel cannot compute them on a part
// alone, several can with a reduction in between, which lowering adds like any other.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct Expanded {
  Graph graph;
  std::vector<NodeId> origins;  // per node of it the node that it is, or stands for part of
};

/// Whether some operator of `graph` has to be.
bool has_to_be_expanded(const Graph& graph);

/// `graph`, whose compute nodes all have strategies, without operators of which a dim `k*` is split. Values keep their
/// ids, names and layouts.
Expanded expanded(const Graph& graph);

}  // namespace shardwright
