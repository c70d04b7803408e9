// What a replay file holds: a plan and the program it becomes, as text that differs where and only where they do.
#pragma once

#include <string>
#include <string_view>

#include "shardwright/plan/plan.h"

namespace shardwright {

/// The predicted seconds of a step; the plan as JSON, one operator a line, without its reasons and times; the
/// program.
std::string replay_text(const Plan& plan, const std::string& program, double step_seconds);

/// What stands before the predicted seconds.
inline constexpr std::string_view prediction = "predicted seconds of a step: ";

}  // namespace shardwright
