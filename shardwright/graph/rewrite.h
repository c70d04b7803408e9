// Small edits that passes share: who uses what, replace a value, drop nodes.
#pragma once

#include <span>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Per value the nodes that read it, in their order (a node twice if it reads twice).
class Users {
 public:
  explicit Users(const Graph& graph);
  std::span<const NodeId> operator[](std::size_t value) const {
    return std::span(nodes_).subspan(begins_[value], begins_[value + 1] - begins_[value]);
  }

 private:
  std::vector<std::size_t> begins_;  // per value, into nodes_; and the end
  std::vector<NodeId> nodes_;
};
inline Users users_of(const Graph& graph) { return Users(graph); }

/// The graph with only `nodes`, in their order, and every use of a value v replaced by `replacement[v]` where
/// that is valid. Values nobody defines any more disappear; ids change.
Graph rebuild(Graph graph, std::span<const NodeId> nodes, const std::vector<ValueId>& replacement);
/// Per value whether an output, a send or an update holds it, so that it must stay whoever else reads it.
std::vector<bool> held_values(const Graph& graph);
/// The nodes for which `keep` is true.
std::vector<NodeId> kept(const std::vector<bool>& keep);

/// Nodes that outputs, sends and updates need, directly or not. Leaves are always kept.
std::vector<bool> live_nodes(const Graph& graph);

/// The graph without nodes that nothing needs.
Graph without_dead_nodes(Graph graph);

}  // namespace shardwright
