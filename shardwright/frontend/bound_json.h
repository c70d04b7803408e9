// What binds a plan and what lost against it, as documents say it.
#pragma once

#include "shardwright/explain/binding.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// Adds `binding` and `binding_by`; `alternatives`, what lost with its price, the best first; and `dropped`, what needed none:
/// how many for each reason, and of these the first by the least that they may take.
void add_bound(Json& document, const Bound& bound, const Evaluation& evaluation);
/// Where nothing fits: `alternatives`, the plan itself among them, what takes least memory first; and `dropped`.
void add_nearest(Json& document, const std::vector<Tried>& tried);

}  // namespace shardwright
