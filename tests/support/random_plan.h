// Plans drawn at random, for tests that any legal plan computes the same.
#pragma once

#include <cstdint>

#include "shardwright/plan/plan.h"

namespace shardwright::testing {

/// A random factorisation of `devices` into axes, and random legal strategies (partial operands and all orders of axes
/// included) of all forward nodes of `graph`. Leaves lie as their first user wants them. It has been through its
/// file's text.
Plan random_plan(const Graph& graph, int devices, std::uint64_t seed);

/// Random stages, as many as fit, on random numbers of the devices, each under a plan as above (one level of optimizer
/// parallelism, of recompute and of fusion for all); a random schedule for `micro_batches`. `graph` is a train step of one micro-batch.
Plan random_pipeline(const Graph& graph, int devices, int micro_batches, std::uint64_t seed);

}  // namespace shardwright::testing
