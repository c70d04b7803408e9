// `explain record DIR`: what ranks of a run did when it failed.
#pragma once

#include "shardwright/cli/verb.h"

namespace shardwright {

/// Whether the words ask for that, and not for a plan that is called so.
bool asks_for_record(const Arguments& arguments);

/// Throws: Error if there is no record, or one that cannot be read.
void report_record(const Arguments& arguments, Terminal& terminal);

}  // namespace shardwright
