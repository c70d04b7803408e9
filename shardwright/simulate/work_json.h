// What a kernel does, by the numbers that it is priced by, as traces have it and `calibrate --from` reads it.
#pragma once

#include "shardwright/cost/compute.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// Null: it does nothing.
Json work_json(const Work& work);

}  // namespace shardwright
