// What verbs that read files of what others train with share.
#pragma once

#include <string>
#include <vector>

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/import_plan.h"

namespace shardwright {

/// `--from`, `--model` and `--cluster`.
std::vector<Flag> recipe_flags(std::vector<Flag> more);
ImportOptions import_options_of(const Arguments& arguments);

/// Each line, on `err`.
void tell(const std::vector<std::string>& lines, Terminal& terminal);

}  // namespace shardwright
