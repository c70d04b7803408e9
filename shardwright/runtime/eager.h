// Operators one at a time, on tensors of the host: no graph, no plan, nothing that communicates. The same kernels as in
// programs.
#pragma once

#include <span>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/graph/op.h"

namespace shardwright {

/// The results of one call. What a call of these types needs is prepared once for each thread.
/// Throws: Error if types or attributes do not fit, or if the operator is no computation.
std::vector<Tensor> run_operator(const OpDef& op, std::span<const Tensor> operands,
                                 const Attributes& attributes = {});

}  // namespace shardwright
