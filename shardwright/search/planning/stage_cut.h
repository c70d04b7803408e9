// Which forward node belongs to which stage, where the plan does not say so.
//
// An even cut keeps the nodes in their order: of all ways to put S - 1 cuts, the one whose slowest stage is fastest. A
// stage takes the time of the forward and backward of its operators, its share of the update, and of what it receives.
// In a long network cuts are tried where the fewest bytes cross within each small share of the work, so that layers stay
// together.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

struct StageNumbers {
  int stages = 1;
  int micro_batches = 1;
};

/// Per node of `graph` its stage; only those of forward operators count. `graph`: a network or a train step.
/// Throws: Infeasible if the network has fewer operators than stages.
/// Cost: O(nodes + places^2) for the places that are tried, at least 256 and 8 for each stage.
std::vector<int> even_stages(const Graph& graph, const Calls& calls, const Cluster& cluster,
                             const StageNumbers& numbers);

/// Forward operators in front of which the fewest bytes cross, one in each of at most `shares` equal shares of the work.
std::vector<NodeId> cut_places(const Graph& graph, const Calls& calls, const Cluster& cluster, int shares);

/// The same from the stages of some operators and modules, by name (`layers.0` is everything called `layers.0.`...).
/// What is not named belongs to the stage of what it reads, or of what reads it first.
/// Throws: Error if a name does not exist, a stage below `stages` is missing, or a stage would come before one that it
/// reads.
std::vector<int> asked_stages(const Graph& graph, const std::map<std::string, int>& asked, int stages);

/// The same by layers, which are what `full` recomputes (plan/recompute.h), as many in each stage. Where they do not come
/// out even, the embedding in front and the head behind count as a layer each; what is left over is spread.
/// Of `layers`, where it is not empty, each stage has so many: what stands before the first layer is in the first stage, what
/// stands behind the last one in the last.
/// Throws: Infeasible if there are fewer layers than stages; Error if `layers` are not those of so many stages.
std::vector<int> layered_stages(const Graph& graph, int stages, const std::vector<int>& layers = {});

/// The longest of `asked` that is `name` or a module around it; nullptr if there is none.
const std::pair<const std::string, int>* stage_asked_of(const std::map<std::string, int>& asked,
                                                        std::string name);
/// Throws: Error with near names if one of `asked` is neither an operator nor a module of `graph`.
void check_stage_names(const Graph& graph, const std::map<std::string, int>& asked);

}  // namespace shardwright
