// Small edits that passes share: who uses what, replace a value, drop nodes.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Per value the nodes that read it (a node twice if it reads twice).
std::vector<std::vector<NodeId>> users_of(const Graph& graph);

/// The graph with only the nodes for which `keep` is true, and every use of a value v replaced by
/// `replacement[v]` where that is valid. Values nobody defines any more disappear; ids change.
Graph rebuild(const Graph& graph, const std::vector<bool>& keep, const std::vector<ValueId>& replacement);

/// Nodes that outputs and updates need, directly or not. Leaves are always kept.
std::vector<bool> live_nodes(const Graph& graph);

/// The graph without nodes that nothing needs.
Graph without_dead_nodes(const Graph& graph);

}  // namespace shardwright
