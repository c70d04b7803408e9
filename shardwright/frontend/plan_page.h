// Plans as pages for people: HTML that needs nothing beside itself.
#pragma once

#include <string>

#include "shardwright/frontend/report.h"

namespace shardwright {

/// The report alone, as part of another page.
std::string to_html(const StepReport& report);

/// A page: the report, where time and memory of a step go, and the plan's file.
std::string plan_page(const StepReport& report, const Plan& plan, const Estimate& estimate);

}  // namespace shardwright
