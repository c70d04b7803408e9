// What a framework would have on the devices of a program instead of its arena.
//
// Parameters and states are the same, but for what the framework's profile says (cost/framework.h): gradients in buffers of
// their own, a copy of what several stages read, a padded vocabulary. What comes and goes is allocated as it is needed:
// there are no gaps between buffers, and what is sent to another stage is freed when it is taken. So a device holds what
// its schedule says at each moment: of the micro-batches whose forward is over what their backward reads, and of the one
// that runs what is alive at its fullest node.
#pragma once

#include <vector>

#include "shardwright/cost/framework.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/simulate/memory.h"
#include "shardwright/simulate/stage_bytes.h"

namespace shardwright {

/// Of a device of each group of ranks of `pipeline`, one after the other. Buffers of the communication library count as
/// communication; copies of scores, masks, and what the allocator holds, as workspace.
/// Cost: linear in buffers, nodes and tasks.
std::vector<BytesByKind> framework_memory(const Pipeline& pipeline, const Framework& framework,
                                          double routing_imbalance = 1);

/// What of a micro-batch lies there from its forward, or from where that is computed again, to its backward beside the
/// buffers of `program`: masks of what is drawn by chance, and what experts keep of the rows that come to them, in the stead
/// of rows that are gathered.
/// Of rows those of the busiest device, which has `routing_imbalance` times the mean.
std::vector<Besides> held_besides(const Program& program, const Framework& framework,
                                  double routing_imbalance = 1);

/// Bytes of the gradients of the parameters of `program`, at least.
double least_gradients(const Program& program, const Framework& framework);

/// Bytes that the update keeps from step to step beside the states of `program`, less where these are shorter.
double states_besides(const Program& program, const Framework& framework);

/// Bytes of the copies of scores, if the last product of its forward makes them.
double score_copies(const Program& program, const Framework& framework);

}  // namespace shardwright
