// Which collectives run as one: buckets.
//
// They fill greedily, in the order in which the collectives may start, within the limits of plan/comm_fusion.h. In
// mode auto they fill from the end, and the k-th from the end is full when moving it takes 1/2, 2, 8, 10, 10, ... times
// as long as starting it: the last one, which no backward hides, is the smallest, and beyond 10 there is nothing to
// save. Gathers of the forward and backward join as long as the latency outweighs their bytes, because they lie
// gathered in memory before they are used. Beyond the limit's bytes no bucket takes more than a thirty-second of a device's memory.
//
// Nothing waits for itself: the collectives of a bucket that moves have the same depth (dependences.h).
#pragma once

#include <limits>
#include <vector>

#include "shardwright/lower/joined_steps.h"
#include "shardwright/passes/dependences.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {

/// Collectives that run as one, or one that moves alone.
struct Bucket {
  std::vector<NodeId> nodes = {};
  JoinedBytes bytes = {};
  double seconds = 0;                              // for the bytes
  int ready = 0;                                   // fusions in front of which it may stand, from here
  int deadline = std::numeric_limits<int>::max();  // to here, where it stands
  int behind = 0;                                  // buckets of its kind that stand behind it
};

/// Those of two collectives or more, and all gradients that are reduced early.
std::vector<Bucket> buckets_of(const Graph& graph, const Dependences& dependences,
                               const PassContext& context);

}  // namespace shardwright
