// Small edits that passes share: who uses what, replace a value, drop nodes.
#pragma once

#include <span>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Per value the nodes that read it (a node twice if it reads twice).
std::vector<std::vector<NodeId>> users_of(const Graph& graph);

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
