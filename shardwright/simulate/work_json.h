// What a kernel or a collective does, by the numbers that it is priced by, as traces have it and `calibrate --from` reads it.
#pragma once

#include "shardwright/cost/compute.h"
#include "shardwright/lower/step.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// Null: it does nothing.
Json work_json(const Work& work);

/// Of a collective over axes: what a rank of its group holds of each part before it; of an all_gather, a permute or a halo
/// after it (layout/collective.h). Stride 0: the group's ranks are not evenly apart.
Json work_json(const Graph& graph, const PreparedTransfer& collective);

}  // namespace shardwright
