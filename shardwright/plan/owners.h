// Whose work a node is: to an operator of the forward belong its own node, its backward nodes, the sums that its gradients
// come first in, and updates of the parameters that it reads first. So what a step takes adds up over operators.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Per node of a train step the forward operator that it belongs to, of a leaf its first reader; invalid: none.
std::vector<NodeId> owners_of(const Graph& graph);

/// Notes them in the nodes, where lowering and passes keep them (Node::owner).
void note_owners(Graph& graph);

}  // namespace shardwright
