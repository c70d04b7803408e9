// Which of the tensors that may lie on the host do, where a plan says what share of their bytes does.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// What `v` is, where it is another value seen otherwise: they lie in one place.
ValueId root_of(const Graph& graph, ValueId v);

/// Made by the forward on the device and read by the backward there; in the order in which they are made. What is sent
/// lies there until then anyway, and outputs are handed out.
std::vector<ValueId> kept_activations(const Graph& graph);

/// Of tensors in their order as many as have at most `share` of all bytes, the largest first.
std::vector<ValueId> largest_offloaded(const Graph& graph, std::vector<ValueId> values, double share);

/// When what is copied is made, and how long copies take.
struct CopyPace {
  std::vector<double> made_at;  // per node, seconds of its phase until it has run; empty: nobody knows
  double seconds_per_byte = 0;
};
/// The same of what the forward leaves, in the order in which it is made: the earliest first, which have longest to go and to
/// come. Where they are made faster than copied, some stay between, so that copies keep up with the forward, which waits for
/// what is too far behind (lower/offload.h): as little behind as lets nearly as many bytes go, but no less than the largest takes.
std::vector<ValueId> earliest_offloaded(const Graph& graph, const std::vector<ValueId>& values, double share,
                                        const CopyPace& pace);

}  // namespace shardwright
