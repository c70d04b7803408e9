// Checks that a graph is well formed. Run after parsing, after lowering and after each pass.
#pragma once

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Throws: Error that names the node: operand defined before use, operand and result counts, inferred types,
/// unique names, phases in order, outputs and updates that exist and have the type of their leaf, legal
/// strategies, layouts that fit.
void verify(const Graph& graph);

}  // namespace shardwright
