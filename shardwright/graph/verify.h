// Checks that a graph is well formed. Run after parsing, after lowering and after each pass.
#pragma once

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Throws: Error that names the node: operand defined before use, operand and result counts, inferred types,
/// unique names, phases in order, outputs and updates that exist and have the type of their leaf, legal
/// strategies, layouts that fit.
void verify(const Graph& graph);

/// Values of a graph that a network or file may make: what has more layers than that does not end.
constexpr std::size_t most_values = std::size_t{1} << 21;
/// Throws: Error if there is no room for one more.
void check_room(const Graph& graph);

/// Sums of sizes pass here: what a plan is expected to take, and arenas, are small multiples of this.
/// Throws: Error if the values of `graph`, whole, are more than 2^60 bytes together.
void check_bytes(const Graph& graph);

/// Throws: Error that names what only a train step or a program holds: other phases than the forward, optimizers,
/// accumulators, collectives and other steps, what is sent, received or fused, new values of parameters.
void check_is_network(const Graph& graph);

}  // namespace shardwright
