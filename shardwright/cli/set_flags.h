// `--set dp=4,tp=2,...`: an expert's words become the flags that say the same, so that there is one way to a plan.
//
//   pp --stages · global_batch --global-batch · micro_batch, micro_batches --micro-batches · zero --optimizer-parallel
//   recompute --recompute · schedule --schedule · dp tp pp together --devices, or the size of a --cluster that has none
#pragma once

#include "shardwright/cli/verb.h"

namespace shardwright {

/// `arguments` with the flags that --set stands for, called by its keys.
/// Throws: Error as parse_constraints does, if a flag says otherwise, or if numbers do not fit each other.
Arguments with_set(Arguments arguments);

}  // namespace shardwright
