// Plans of several stages: who does what, then a plan for each stage as for a network of its own.
#pragma once

#include <optional>

#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

/// The stages that are asked for, or that `annotations` speak of; 1 if nobody asks.
/// Throws: Error if annotations speak of one beyond what is asked for.
int stages_asked(std::optional<int> asked, int chunks, const Annotations& annotations);

/// `plan`, which says for what network and devices, with the plans of its stages. `stages`: see stages_asked.
/// Throws: Error where the devices or the samples do not divide, or as planning a stage does.
Plan with_stages(Plan plan, const Graph& graph, const PlanRequest& request, int stages);

}  // namespace shardwright
