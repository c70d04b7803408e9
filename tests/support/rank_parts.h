// What every rank computes of a call under every legal split: for tests that compare kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardwright/graph/op.h"
#include "tests/support/samples.h"

namespace shardwright {

/// One rank's part of a call.
struct RankPart {
  std::string where;  // mesh, strategy and rank, for messages
  std::vector<Tensor> operands;
  std::vector<Type> results;
  Attributes attributes;
  Rule rule;
  LoopBox loops;
};

/// Calls `use` for the whole call and for each rank of each legal strategy on those of the meshes [2], [3] and [2, 2]
/// that have at most `ranks`. Operands are small integers, so that sums are exact.
void for_each_rank_part(const OpDef& op, const Sample& sample,
                        const std::function<void(const RankPart&)>& use, int ranks = 4);

/// What the reference kernel makes of the part.
std::vector<Tensor> reference(const OpDef& op, const RankPart& part);

}  // namespace shardwright
