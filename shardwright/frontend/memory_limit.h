// A limit of each device's memory: what a search pays for going beyond it, and the refusal of a plan that does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// What PlanRequest::price wants: seconds of a step, or, from unfit_seconds on, how far it is from fitting into `bytes`.
std::function<double(const PlannedGraph&, const Cluster&)> price_within(std::optional<std::int64_t> bytes);

/// Of a step that does not fit: by how much, and what takes most. `limit` allows less: `a device of a100-80g:8`.
std::string misfit_text(const Evaluation& evaluation, std::string_view limit);

/// A line that says so of the devices of `cluster`, with its end; empty if the step fits. What every verb tells last.
std::string misfit_notice(const Evaluation& evaluation, std::string_view cluster);

/// Throws: Infeasible if a step does not fit, saying by how much and what takes most. `limit` is what the user said of
/// memory: `--memory-cap 60GB`.
void check_memory(const Evaluation& evaluation, std::string_view limit);

}  // namespace shardwright
