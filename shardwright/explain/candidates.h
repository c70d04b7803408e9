// The strategies that an operator could have instead of its own.
#pragma once

#include <span>
#include <vector>

#include "shardwright/layout/strategy.h"

namespace shardwright {

struct Candidates {
  std::vector<Strategy> strategies;
  int left_out = 0;  // that split tensors into as many parts, on other axes
};

/// Every legal strategy without partial operands on one of `meshes`; `planned` is always one of them. Where there
/// are more than `most`, of those with equal parts per dim one stands for all: that which differs least from
/// `planned`; and of these the `most` nearest to it are kept.
/// On meshes of many axes only those count that differ from `planned` or from one dim split over all by the place
/// of at most two axes.
Candidates candidates_of(const Rule& rule, std::span<const Mesh> meshes, const Strategy& planned,
                         std::size_t most = 256);

}  // namespace shardwright
