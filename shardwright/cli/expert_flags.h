// `--set dp=4,tp=2,...`: an expert's words become the flags that say the same, so that there is one way to a plan.
//
//   pp --stages · global_batch --global-batch · micro_batch --micro-batches · zero --optimizer-parallel
//   recompute --recompute · schedule --schedule · dp tp pp together --devices, or the size of a --cluster that has none
#pragma once

#include "shardwright/cli/verb.h"

namespace shardwright {

/// `arguments` with the flags that --set stands for, called by its keys.
/// Throws: Error as parse_expert does, if a flag says otherwise, or if numbers do not fit each other.
Arguments with_expert(Arguments arguments);

}  // namespace shardwright
