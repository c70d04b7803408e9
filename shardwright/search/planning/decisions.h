// What a search has found becomes choices on the graph, and these are told in names as the plan of a stage.
#pragma once

#include <string>
#include <vector>

#include "shardwright/graph/calls.h"
#include "shardwright/plan/plan.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {

struct Decisions {
  Choices choices;
  std::vector<Reason> reasons;  // per node
  std::vector<bool> is_fixed;   // per node: by annotations or the mode
};

/// What a search has found under `fixed`, with the layouts of leaves; on meshes whose axes are cut where groups of
/// optimizer parallelism need it.
Decisions decisions_of(FixedChoices fixed, SearchResult found, const Graph& graph, const Calls& calls,
                       const OptimizerParallel& optimizer_parallel);

/// Applying it makes the same choices.
StagePlan told(const Graph& graph, const Calls& calls, const Decisions& decided);

}  // namespace shardwright
