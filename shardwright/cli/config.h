// `--config FILE`: what a configuration file says of settings, beside what flags say.
#pragma once

#include "shardwright/cli/verb.h"

namespace shardwright {

/// `arguments` with the settings that the file of --config says, where no flag does, named by its keys. What the file asks
/// for and what there is not yet is told in `notices`.
/// Throws: Error as load_config does, or if what the file says does not fit the flags.
Arguments with_config(Arguments arguments);

}  // namespace shardwright
