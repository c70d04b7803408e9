// The files that a command writes.
#pragma once

#include "shardwright/cli/verb.h"

namespace shardwright {

/// Throws: Error where two flags name one file, in whatever way: the second would take the place of the first.
void check_outputs(const Arguments& arguments);

}  // namespace shardwright
