// Recompute: what the forward made and the backward reads is dropped and made again, by copies of the forward's nodes
// in the backward. A graph whose nodes all have strategies becomes another such graph, before communication is
// inserted; so lowering, the passes, the memory planner and the estimate see ordinary nodes.
//
//   forward:   %h = relu %z          backward:  recomputed %h.again = relu %z
//              %y = matmul %h, %w               %dw = matmul %dy, %h.again
//
// Region by region (plan/recompute.h). A value of a region is kept if a node outside of it reads it, in the forward of
// another region or in the backward, if it is held beyond the step, and if it is made of a state that the forward
// changes; all other values that the region's backward reads, and what these are made of, are copied. A copy stands
// immediately before the first node that needs it. Operators are copied with their attributes and strategies;
// randomness is counter-based, so it comes out the same.
//
// A kept value that was redistributed for the forward could be kept in that form, too, because lowering shares most; so
// the backward reads it through `keep`, an alias that only the backward redistributes: in the layout in which it
// was made, or sharded over all axes along which it is replicated (shard_kept). Without communication it is kept in the
// form that collectives made for the forward.
//
// selected: an operator that streams memory (cost/compute.h), or makes attention's scores, is computed again if that drops more than it needs kept
// besides, and if it reads at most four times what it drops. What stands behind the last contraction of the forward
// is kept: its backward follows at once.
#pragma once

#include "shardwright/graph/graph.h"
#include "shardwright/layout/redistribution.h"
#include "shardwright/plan/recompute.h"

namespace shardwright {

/// `graph` is complete (plan/complete.h), `regions` are its own; `redistributor` is made for its meshes.
/// Cost: O(nodes).
Graph with_recompute(const Graph& graph, const std::vector<RecomputeRegion>& regions,
                     Redistributor& redistributor);

/// By owner the operators of regions of which nothing but what they read is kept. Empty: there are none.
std::vector<bool> repeated_owners(const Graph& graph, const std::vector<RecomputeRegion>& regions);

}  // namespace shardwright
