// From what is fixed to how a step is done: the one place where constraints that say nothing get what is usual.
#pragma once

#include "shardwright/plan/constraints.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// What `c` comes to where nothing else is chosen: as many stages as are said or named, as many micro-batches as stages, all
/// else as in Settings{}. Which parameters fusion numbers mean, the graph says (with_parameters).
/// Throws: Error if the stages that are named cannot be shared out.
Settings settings_of(const Constraints& c);

/// What of `settings` is other than usual: settings_of it gives them again.
Constraints constraints_of(const Settings& settings);

/// As many stages as `c` says or, if it says none, names.
int stage_count(const Constraints& c);

}  // namespace shardwright
