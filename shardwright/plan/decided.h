// What a plan has decided, whoever made it: in the words of constraints, and whether two plans decide alike.
#pragma once

#include "shardwright/plan/constraints.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// The words that say what `plan` is. Degrees are said where all axes of all stages are called after one (`dp`, or of tp
/// its parts `tp0`, `tp1`), a schedule where there are several stages; `samples` are those of a micro-batch, 0 where there
/// are none. Whether it splits by the sequence, operators say one by one, and so of names nothing is said.
Constraints decided_by(const Plan& plan, std::int64_t samples);

/// What runs is the same of both: settings, meshes, strategies and layouts. Who found it, and why, does not count.
bool decide_alike(const Plan& a, const Plan& b);
bool decide_alike(const PlannedOperator& a, const PlannedOperator& b);

/// The degree that the axis called `name` is of, or a part of; empty if it is of none.
std::string_view degree_of_axis(std::string_view name);

}  // namespace shardwright
