// A plan as a JSON document, for those who add to it.
#pragma once

#include "shardwright/plan/json_text.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// With the keys of commands.md; what `to_json` writes.
Json json_of(const Plan& plan);

}  // namespace shardwright
