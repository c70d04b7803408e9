// The distinct calls of a graph. A network of many layers makes few: what depends on operator, attributes and types
// alone (its rule, its work, the layouts of a strategy) is worked out once per call, not once per node.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

std::uint64_t hash_of(const Attributes& attributes);

/// The rule of `node` over its global shapes, bound once for equal calls of all graphs: programs of one search make the same over
/// and over. Each thread has its own; the last thousands are kept.
std::shared_ptr<const Rule> shared_rule_of(const Graph& graph, const Node& node);

class Calls {
 public:
  /// Cost: O(nodes).
  explicit Calls(const Graph& graph);

  int size() const { return static_cast<int>(examples_.size()); }
  /// The call that `node` makes; equal for nodes that differ in names, places and phases only.
  int of(NodeId node) const { return call_of_[static_cast<std::size_t>(node.index)]; }
  /// A node that makes `call`.
  NodeId example(int call) const { return examples_[static_cast<std::size_t>(call)]; }
  /// Over the global shapes. Empty for leaves and redistribution steps, which no strategy splits.
  const Rule& rule(int call) const { return *rules_[static_cast<std::size_t>(call)]; }
  const Rule& rule(NodeId node) const { return rule(of(node)); }

 private:
  std::vector<int> call_of_;  // per node
  std::vector<NodeId> examples_;
  std::vector<std::shared_ptr<const Rule>> rules_;
};

}  // namespace shardwright
