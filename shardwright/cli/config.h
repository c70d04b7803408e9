// `--config FILE`: what a configuration file says, as if it had been written as flags.
#pragma once

#include "shardwright/cli/verb.h"

namespace shardwright {

/// `arguments` with the flags that the file of --config stands for, where no flag says it already. What the file asks
/// for and what there is not yet is told in `notices`.
/// Throws: Error as load_config does, or if what the file says does not fit the flags.
Arguments with_config(Arguments arguments);

}  // namespace shardwright
