// Gradients of several micro-batches become those of the whole batch: the train step of one micro-batch, run M times,
// adds up what the update reads.
//
// The loss of a micro-batch is a mean over its samples, so the seed of the backward is 1/M instead of 1. Behind each
// gradient of a parameter stands an accumulator, a leaf that is zero before the first micro-batch:
//
//   %w.accumulator = accumulator f32[8, 6]
//   %w.accumulated = sum %w.accumulator, %dw
//   update %w.accumulator <- %w.accumulated
//
// and the update reads `w.accumulated`. It may stay partial: what is added up is reduced once, by the update. A sum of
// short gradients is kept in f32, and rounded once, for the update.
//
// What differs from step to step (dropout) reads the micro-batches done instead of the steps done, a state that the forward
// counts, and is told how many make a step: so it knows the step and, of the whole batch, the samples. Such states, which
// the forward itself moves on, are read in a copy, `s.now`: by the time of a micro-batch's backward later forwards may have
// moved them on.
#pragma once

#include <string_view>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct Accumulated {
  Graph graph;
  std::vector<int> stages;  // per node of `graph`; a new forward node has the stage of what reads it first
};

/// `graph` (a whole train step) for `micro_batches` of its batches; unchanged for one. `stages`: per forward node its
/// stage, or empty. A gradient that several stages contribute to is accumulated in each and summed by the update.
/// Throws: Error if the update reads what is no gradient and differs from micro-batch to micro-batch.
Accumulated accumulated(const Graph& graph, int micro_batches, const std::vector<int>& stages = {});

/// The state that counts micro-batches, where something reads it: steps done times `micro_batches`.
constexpr std::string_view micro_batch_count = "optimizer.micro_batches";

/// `node` adds to an accumulator, which is its operand 0.
bool is_accumulation(const Graph& graph, const Node& node);

}  // namespace shardwright
