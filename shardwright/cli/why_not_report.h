// What `explain` says of a plan's structure: why it is not as somebody asks, and what else a word of it could say.
#pragma once

#include <string>

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/planned_model.h"

namespace shardwright {

/// Flags of --why-not, and of words.
std::vector<Flag> why_not_flags();

/// Tells of what --why-not asks. Throws: Error that names the plan and its network beside what is wrong.
void report_why_not(const Arguments& arguments, const PlannedModel& made, Terminal& terminal);

/// Tells of each value of `word` (explain/other_values.h).
void report_word(const Arguments& arguments, const std::string& word, const PlannedModel& made,
                 Terminal& terminal);

}  // namespace shardwright
