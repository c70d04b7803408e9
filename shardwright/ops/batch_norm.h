// What the kernels of a batch norm, here and in backends, must agree on.
#pragma once

#include "shardwright/graph/op.h"

namespace shardwright::ops {

/// Added to the variance if attribute `epsilon` is not given.
constexpr double batch_norm_epsilon = 1e-5;

/// How many elements of the whole batch there are per channel.
inline double batch_norm_count(const KernelCall& call) {
  double count = 1;
  for (std::size_t l = 0; l < call.rule.loops.size(); ++l)
    if (call.rule.loops[l].name.front() == 'i') count *= static_cast<double>(call.box.loops[l].size);
  return count;
}

}  // namespace shardwright::ops
