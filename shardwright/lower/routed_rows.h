// Which collectives need not move all rows: those whose rows go to few of many experts (layout/routing.h).
//
//   all_gather       whose result routed operators alone read, of each row those that have an expert of it
//   reduce_scatter   of what they make, of which nothing comes from others
//
// Such a step reads the ids of the rows beside its operand, and says how many experts there are, over which axes split. Rows
// that are moved in two steps, over one host and then between hosts, say, are followed through both, as far as their ids are.
#pragma once

#include <string>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/graph/rewrite.h"

namespace shardwright {

/// Steps of a program that move rows to and from experts, with the ids that say which.
Graph with_routed_rows(Graph graph);

/// Why a step that has a routing cannot have it: what reads it, or makes it, is no operator that leaves such rows alone. Empty: none.
std::string unfit_routing(const Graph& graph, const Users& users, const std::vector<bool>& is_held,
                          NodeId step);

}  // namespace shardwright
