// `explain --measured`: a step of another framework, written down by hand, beside that of a plan.
#pragma once

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/planned_model.h"

namespace shardwright {

Flag measured_flag();

/// Throws: Error if the table cannot be read.
void report_measured(const Arguments& arguments, const PlannedModel& made, Terminal& terminal);

}  // namespace shardwright
