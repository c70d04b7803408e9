// A command line with all that stands for flags in it: plans, words of experts, files.
#pragma once

#include "shardwright/cli/verb.h"

namespace shardwright {

/// `said` with the flags that --plan, --set, --over, --config and --strategy stand for.
/// Throws: Error as each of them does.
Arguments completed(Arguments said);

}  // namespace shardwright
