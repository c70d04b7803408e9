// Everything that planning decides, in terms of the graph: written onto it, and told in names as the plan.
#pragma once

#include <map>
#include <vector>

#include "shardwright/graph/calls.h"
#include "shardwright/plan/plan.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {

struct Decisions {
  Constraints constraints;  // with the meshes of the choices
  std::vector<Choice> choices;
  std::map<ValueId, Layout> leaves;  // of inputs, parameters, and states that the forward reads
};

/// What a search has found under `constraints`, on meshes whose axes are cut where groups of optimizer parallelism need
/// it.
Decisions decisions_of(Constraints constraints, SearchResult found, const Graph& graph, const Calls& calls,
                       const OptimizerParallel& optimizer_parallel);

/// `plan`, which says for what network and devices, with what was decided.
Plan told(Plan plan, const Graph& graph, const Calls& calls, const Decisions& decided);

/// The same as applying that plan. `plan` says what is recomputed, fused and sharded.
PlannedGraph written(Graph graph, const Decisions& decided, const Plan& plan,
                     const MicroBatches& micro_batches);

}  // namespace shardwright
