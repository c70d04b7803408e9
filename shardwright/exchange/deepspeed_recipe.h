// What the JSON of DeepSpeed's configuration says of a plan. "auto", which its callers fill in, is as if it were not said.
#pragma once

#include "shardwright/exchange/plan_format.h"

namespace shardwright {

/// In a file that is written here: what it does not carry. Nobody else reads it.
constexpr const char* deepspeed_own_key = "shardwright";

/// Throws: Error on keys that there are not, and on products that do not come out, with the right numbers.
Recipe read_deepspeed(const RecipeFile& file);

}  // namespace shardwright
