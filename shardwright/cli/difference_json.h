// What one step takes more than another, as documents say it.
#pragma once

#include <optional>

#include "shardwright/plan/json_text.h"
#include "shardwright/simulate/step_parts.h"

namespace shardwright {

/// Adds `difference_seconds`, by part, and `difference_bytes`, by kind and in all; null where there is none.
void add_difference(Json& document, const std::optional<StepDifference>& difference);

}  // namespace shardwright
