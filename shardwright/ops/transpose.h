// How a transposition goes over its tensors, for the kernels that do so: the reference, and those of backends.
#pragma once

#include "shardwright/graph/op.h"
#include "shardwright/ops/strided.h"

namespace shardwright::ops {

/// Over the result, whose rows step by 1, and the operand.
Walk<2> transpose_walk(const KernelCall& call);

}  // namespace shardwright::ops
