// Which calls of an element are one line of Python, and in which order these stand.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/graph/op.h"

namespace shardwright::torch {

/// One call; two that PyTorch has as one; or several updates by one optimizer with the same settings.
struct Line {
  std::vector<NodeId> nodes;
  const JointForm* joint = nullptr;
};

/// Updates in place wait for others, so that small weights share the launch of a kernel: their gradients, which live longer
/// for it, take 32 MiB at most. Whatever reads a new value comes behind it as in the plan.
std::vector<Line> lines_of(const Graph& graph, const std::vector<NodeId>& nodes,
                           const std::vector<bool>& is_in_place);

/// The operands that an update does not share with the others of its line: the weight, its gradient, its states.
std::vector<bool> own_operands(const Node& update);

}  // namespace shardwright::torch
