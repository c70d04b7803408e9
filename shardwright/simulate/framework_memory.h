// What a framework would have on the devices of a program instead of its arena.
//
// Parameters and states are the same. What comes and goes is allocated as it is needed: there are no gaps between
// buffers, and what is sent to another stage is freed when it is taken, but an allocator holds some slack. Gradients and
// the buffers of the communication library are the framework's (cost/framework.h).
#pragma once

#include <vector>

#include "shardwright/cost/framework.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/simulate/memory.h"

namespace shardwright {

/// Of a device of each group of ranks of `pipeline`, one after the other. Buffers of the communication library count as
/// communication; copies of scores, and what the allocator holds, as workspace.
std::vector<BytesByKind> framework_memory(const Pipeline& pipeline, const Framework& framework);

/// Bytes of the gradients of the parameters of `program`, at least.
double least_gradients(const Program& program, const Framework& framework);

/// Bytes of the copies of scores, if the last product of its forward makes them.
double score_copies(const Program& program, const Framework& framework);

}  // namespace shardwright
