// Plans as pages for people: HTML that needs nothing beside itself.
#pragma once

#include <optional>
#include <string>

#include "shardwright/explain/binding.h"
#include "shardwright/frontend/report.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// The report alone, as part of another page.
std::string to_html(const StepReport& report);

/// A page: the report, where time and memory of a step go, what binds the plan where that is known, and the plan's file.
std::string plan_page(const StepReport& report, const Plan& plan, const Evaluation& evaluation,
                      const std::optional<Bound>& bound = {});

}  // namespace shardwright
