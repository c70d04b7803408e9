// Nodes whose results may be written where the leaves lie that they replace: an optimizer's new weight over the old one.
#pragma once

#include <vector>

#include "shardwright/exchange/python/elements.h"

namespace shardwright::torch {

/// By node of a stage. The plan's buffers say where its own kernels do so, which is proven; PyTorch has views where they
/// have copies, so nobody may read a view of the leaf behind the node, either.
std::vector<bool> nodes_in_place(const Pipeline& pipeline, int stage, const python::Elements& elements);

}  // namespace shardwright::torch
