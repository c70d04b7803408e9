// What degrees ask of the data that come into a network.
#pragma once

#include "shardwright/graph/calls.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// It has experts, whose rows devices share evenly.
bool has_routed_rows(const Graph& graph);

/// Throws: Error unless every batch that comes into `graph`, a network or a stage of it, has a sample for each of dp, and cp
/// divides every sequence. Where parts are equal, or of a network with experts, dp divides the batch.
/// Shares of the batch, where there are some, are those of dp, and leave a sample to each.
void check_data(const Graph& graph, const Calls& calls, const Constraints& constraints, bool has_equal_parts);

/// Throws: Error where `node`, whose loop dim `batch` stays whole, would make all samples on each device since they are no
/// multiple of dp, or are cut by shares.
void check_unsplit(const Graph& graph, const Node& node, const LoopDim& batch, int data, bool has_shares);

}  // namespace shardwright
