// A call as the ranks of a mesh compute it under a strategy, each its part.
#pragma once

#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/graph/op.h"

namespace shardwright {

/// What one rank takes and makes.
struct RankCall {
  std::vector<Tensor> operands, results;
  Attributes attributes;  // local
  LoopBox box;
};

/// Of every rank. Operands that are partial sums are random addends, small integers but one.
/// Throws where a kernel cannot compute its part.
std::vector<RankCall> calls_on_ranks(const OpDef& op, const Rule& rule, const Strategy& strategy,
                                     const Mesh& mesh, const std::vector<Tensor>& in,
                                     const Attributes& attributes);

/// What every rank computes: [result][rank]. Operands that are partial sums are random addends, small integers but one.
/// Throws where a kernel cannot compute its part.
std::vector<std::vector<Tensor>> run_on_ranks(const OpDef& op, const Rule& rule, const Strategy& strategy,
                                              const Mesh& mesh, const std::vector<Tensor>& in,
                                              const Attributes& attributes);

/// a + sign b, in the type of a.
Tensor sum_of(const Tensor& a, const Tensor& b, double sign = 1);

}  // namespace shardwright
