// Repeated layers: which forward nodes play the same part in the network, told by structure, never by name.
//
// Layers stand one after the other: their nodes make the same calls in the same order, and each reads what its like one
// period before reads, moved by a period, or the very same value. Runs of at least four such periods are found from
// the calls that recur at equal distances; a run is cut into periods where the fewest values cross. Its first and its
// last period may differ from the others, since they see the ends of the network; those between them are one class
// per place. What is planned per class is planned once, so the work does not grow with depth.
// Cost: O(nodes * distinct calls), and the square of a period for its cut.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"

namespace shardwright::space {

struct Fold {
  std::vector<int> class_of;                 // per node; -1: not a forward node
  std::vector<std::vector<NodeId>> members;  // per class, in the graph's order

  int size() const { return static_cast<int>(members.size()); }
};

struct FoldOptions {
  bool is_on = true;  // off: every node is a class of its own
  std::span<const std::uint64_t>
      labels;  // per node: what sets it apart from its like, 0 for nothing; may be empty
};

/// Runs of layers, in order: of each its layers, of each layer the forward operators.
std::vector<std::vector<std::vector<NodeId>>> repeated_layers(const Graph& graph, const Calls& calls);

Fold fold(const Graph& graph, const Calls& calls, const FoldOptions& options = {});

}  // namespace shardwright::space
