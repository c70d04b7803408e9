// Plans of stages: which part of the network each has, and what is asked of it there.
#pragma once

#include <map>
#include <string>

#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

/// Throws: Error if `constraints` name a stage that `p` does not have.
void check_stages(const Constraints& constraints, const Pipelining& p);

/// The stages that `constraints` say, of single names: ranges are written out. Throws: Error if a name has two.
std::map<std::string, int> stages_by_name(const Constraints& constraints);

/// `graph` cut into the stages that `plan` has and `request` speaks of. Throws: Error where that cannot be.
StagedGraph parts_of(const Graph& graph, const PlanRequest& request, const Plan& plan);

/// What is asked of the stage called `number`, which has `part` of the network `whole`.
/// Throws: Error where its devices cannot do it.
PlanRequest request_of_stage(const PlanRequest& request, const Plan& plan, const Graph& whole,
                             const Graph& part, int number);

}  // namespace shardwright
