// The axes behind a dim of several loop dims, `(h d)`, put on these: heads first, the features of each only where every device
// has one head.
#pragma once

#include <span>
#include <vector>

#include "shardwright/layout/strategy.h"

namespace shardwright {

struct SpreadAxes {
  bool fits = false;
  int cut = -1;     // an axis of `tensor` that is longer than a dim has parts
  int devices = 0;  // those that the dim has parts for; 0: there is no such axis
};

/// Puts `axes`, over which a dim made of `loops` lies, on those of them that they may take, major ones first, and into `s`. What
/// they do not divide is cut unevenly: the major loop at their runs, or what is left for the last axis of `tensor`.
SpreadAxes spread_axes(const Axes& axes, const Rule& rule, const std::vector<int>& loops,
                       std::span<const int> may_take, const Mesh& mesh, const Axes& tensor, Strategy& s);

}  // namespace shardwright
