// Plans of several stages: who does what, then a plan for each stage as for a network of its own.
#pragma once

#include "shardwright/plan/plan.h"

namespace shardwright {

/// The stages that annotations or the request ask for; 1 if nobody asks.
int stages_asked(const PlanRequest& request);

/// `plan`, which says for what network and devices, with the plans of its stages. `stages`: see stages_asked.
/// Throws: Error where the devices or the samples do not divide, or as planning a stage does.
Plan with_stages(Plan plan, const Graph& graph, const PlanRequest& request, int stages);

}  // namespace shardwright
