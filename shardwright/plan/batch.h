// Where the batch is in every value, and what data parallelism makes of an operator.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// A leaf whose dim 0 is the batch: an input, or what another stage's forward makes of one.
bool brings_samples(const Node& node);

/// Per value and dim whether it carries the batch.
using BatchDims = std::vector<std::vector<bool>>;

/// Dim 0 of the inputs, and what rules make of it. Only forward values have dims.
BatchDims batch_dims(const Graph& graph);

/// The split of the batch over all axes of `mesh`, or nothing at all where the batch does not divide.
Strategy batch_strategy(const Graph& graph, const Node& node, const BatchDims& is_batch, const Mesh& mesh);

}  // namespace shardwright
