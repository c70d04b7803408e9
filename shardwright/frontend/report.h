// Plans for people: a table that can be argued with.
#pragma once

#include <string>

#include "shardwright/plan/plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {

/// Operators with their splits and why; then meshes, memory and communication per step.
std::string plan_table(const Plan& plan, const Estimate& estimate);

/// `12.3 KB`
std::string bytes_text(std::int64_t bytes);

}  // namespace shardwright
