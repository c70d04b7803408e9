// An operator of a plan as JSON.
#pragma once

#include "shardwright/plan/json_text.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

Json operator_json(const PlannedOperator& op);
/// Throws: Error that names what is wrong, behind the operator.
PlannedOperator operator_of(const Json& json);

}  // namespace shardwright
