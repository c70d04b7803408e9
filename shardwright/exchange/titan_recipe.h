// What torchtitan's options say of a plan, however they are written: a recipe in Python (`ParallelismConfig(
// tensor_parallel_degree=4)`, `config.training.max_context_length = 8192`), flags (`--parallelism.tensor_parallel_degree 4`),
// or a table of TOML (`[parallelism]`), as they were before.
#pragma once

#include <string>

#include "shardwright/exchange/plan_format.h"
#include "shardwright/plan/schedule.h"

namespace shardwright {

/// As PyTorch's pipelining calls the schedule; empty: it has none like it.
std::string titan_schedule(const Schedule& schedule);

/// Throws: Error on options that there are not, and on products that do not come out, with the right numbers.
Recipe read_titan(const RecipeFile& file);

}  // namespace shardwright
