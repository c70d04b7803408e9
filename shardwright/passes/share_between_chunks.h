// One place for what the chunks of a device need while they run. A device runs one task at a time, so what lives within one
// (gathered weights, what is computed again, workspace) may lie where another chunk has its own; and when all tasks are over, what
// lives within the update lies there, that of each chunk beside that of the others, as their updates take turns.
#pragma once

#include "shardwright/lower/pipeline.h"

namespace shardwright {

/// Buffers of an interleaved schedule's programs so placed, where that takes less of a device.
void share_between_chunks(Pipeline& pipeline);

}  // namespace shardwright
