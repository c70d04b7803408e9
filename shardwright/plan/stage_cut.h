// Which forward node belongs to which stage, where the plan does not say so.
//
// An even cut keeps the nodes in their order and cuts where little crosses: of all ways to put S - 1 cuts, the one whose
// slowest stage, with what it receives, is fastest. Cuts are tried where the fewest bytes cross, at least a few for each
// stage, so that layers stay together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// Per node of `graph` its stage; only those of forward operators count.
/// Throws: Infeasible if the network has fewer operators than stages.
/// Cost: O(places^2 * stages) for the places that are tried.
std::vector<int> even_stages(const Graph& graph, const Calls& calls, const Cluster& cluster, int stages);

/// The same from the stages of some operators and modules, by name (`layers.0` is everything called `layers.0.`...).
/// What is not named belongs to the stage of what it reads, or of what reads it first.
/// Throws: Error if a name does not exist, a stage below `stages` is missing, or a stage would come before one that it
/// reads.
std::vector<int> asked_stages(const Graph& graph, const std::map<std::string, int>& asked, int stages);

}  // namespace shardwright
