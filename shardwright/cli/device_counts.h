// `plan` on several numbers of devices: --over draws a curve, --objective chooses one of them.
#pragma once

#include <string_view>
#include <vector>

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/model.h"
#include "shardwright/plan/tried.h"

namespace shardwright {

/// The name of a preset without a number: it is sold in any.
bool is_kind_of_machine(std::string_view name);

/// With the machine that --over leaves open: a preset without a number, or no cluster, has as many devices as the longest.
/// Throws: Error on numbers that are none or too large, and on flags that go with one number of devices only.
Arguments with_counts(Arguments arguments);

/// Whether an objective other than time says so.
bool chooses_devices(const Arguments& arguments);
/// --over without such an objective.
bool draws_curve(const Arguments& arguments);

/// The model as the plan on the number of devices that is meant has it, which is the plan from here on; what was looked at
/// for it goes to `tried`.
/// Throws: Infeasible if none is.
Model model_on_best_count(const Arguments& arguments, Terminal& terminal, std::vector<Tried>& tried);

/// What a step takes on each number of devices: a table, or with --json a document. Returns the exit status.
int report_curve(const Arguments& arguments, Terminal& terminal);

}  // namespace shardwright
