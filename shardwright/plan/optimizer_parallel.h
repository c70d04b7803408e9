// Optimizer parallelism as --optimizer-parallel says it: `LEVEL[:threshold=BYTES,group=G]`.
#pragma once

#include <string>

#include "shardwright/base/given.h"
#include "shardwright/plan/leaves.h"

namespace shardwright {

/// `2:threshold=1024,group=4`; what is usual is left out.
std::string to_text(const OptimizerParallel& options);
/// Throws: Error that says what it should be.
OptimizerParallel parse_optimizer_parallel(const Given& given);

}  // namespace shardwright
