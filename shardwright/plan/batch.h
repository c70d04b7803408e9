// Where the batch is in every value, and what data parallelism makes of an operator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// The dims of a leaf's result that carry the batch: dim 0 of an input; of what another stage's forward sends, those
/// that do so in the whole network.
std::vector<std::size_t> batch_dims_of_leaf(const Graph& graph, const Node& leaf);

/// Samples of `graph`, a network or a stage of it; nothing where no leaf brings a batch.
std::optional<std::int64_t> samples_of(const Graph& graph);

/// Of an input or output of a step: `type` is what each micro-batch has of it, a share of dim 0. Scalars stay.
Type of_whole_step(Type type, int micro_batches);

/// How a `receive` leaf says so.
Attributes attributes_of_batch(const std::vector<bool>& is_batch);

/// Per value and dim whether it carries the batch.
using BatchDims = std::vector<std::vector<bool>>;

/// Those of leaves, and what rules make of them. Only forward values have dims.
BatchDims batch_dims(const Graph& graph);

/// The first operator by which the loss (output 0) of a whole batch is another number than the mean of its parts' losses:
/// it makes something of several samples that is no mean, nor linear in one (statistics that each sample is held to, the
/// largest, products of samples with each other), or it sums the loss. Invalid if there is none.
NodeId first_mixing(const Graph& graph);
inline bool mixes_samples(const Graph& graph) { return first_mixing(graph).is_valid(); }

/// What to tell of a step of several micro-batches, of so many parts each, which has that operator; empty if it has none.
std::string mixing_notice(const Graph& graph, int micro_batches, int interleave = 1);

/// The split of the batch over all axes of `mesh`, or nothing at all where the batch does not divide.
Strategy batch_strategy(const Graph& graph, const Node& node, const BatchDims& is_batch, const Mesh& mesh);

}  // namespace shardwright
