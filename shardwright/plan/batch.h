// Where the batch is in every value, and what data parallelism makes of an operator.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// The dims of a leaf's result that carry the batch: dim 0 of an input; of what another stage's forward sends, those
/// that do so in the whole network.
std::vector<std::size_t> batch_dims_of_leaf(const Graph& graph, const Node& leaf);

/// Of an input or output of a step: `type` is what each micro-batch has of it, a share of dim 0. Scalars stay.
Type of_whole_step(Type type, int micro_batches);

/// How a `receive` leaf says so.
Attributes attributes_of_batch(const std::vector<bool>& is_batch);

/// Per value and dim whether it carries the batch.
using BatchDims = std::vector<std::vector<bool>>;

/// Those of leaves, and what rules make of them. Only forward values have dims.
BatchDims batch_dims(const Graph& graph);

/// A forward operator sums over samples into more than one number: what it makes of a part of the batch is another.
bool mixes_samples(const Graph& graph);

/// The split of the batch over all axes of `mesh`, or nothing at all where the batch does not divide.
Strategy batch_strategy(const Graph& graph, const Node& node, const BatchDims& is_batch, const Mesh& mesh);

}  // namespace shardwright
