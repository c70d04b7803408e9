// The part of a planned network that a change of one operator's strategy can touch.
//
//   touched values   what the operator and its backward nodes read and make; gradients of what it reads and makes, and
//                    the addends of their sums; its parameters' states and new values
//   nodes            whoever makes or reads a touched value. Who makes what else they read becomes a leaf.
//
// Everything else of a step is the same whatever the operator's strategy, since other strategies stay and layouts of
// other values follow from those. So plans that differ in one operator can be compared on a few dozen nodes.
#pragma once

#include <map>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct Neighbourhood {
  Graph graph;                   // complete (plan/complete.h)
  NodeId node;                   // the operator
  std::vector<bool> is_touched;  // per value
  std::vector<bool> is_own;      // per node: its strategy follows from the operator's, or is it
};

/// Of the forward node `id` of `graph`, whose nodes all have strategies and whose leaves have layouts.
Neighbourhood neighbourhood_of(const Graph& graph, NodeId id);

}  // namespace shardwright
