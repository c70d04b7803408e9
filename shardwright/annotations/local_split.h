// What one annotation says by itself: how a device matrix of its own lies behind the loop dims of an operator, or
// behind the dims of a leaf. fixed_choices.cpp brings all of them onto common meshes.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/plan/tensor_split.h"

namespace shardwright {

/// Axes of one device matrix behind each loop dim.
struct LocalSplit {
  Mesh mesh;
  std::vector<Axes> loops;
};

/// The split of `node` that `annotation` asks for on `devices` devices.
/// Throws: Error for each thing that cannot be, with both values.
LocalSplit split_of_node(const Graph& graph, const Node& node, const Annotation& annotation, int devices);

/// The split of a leaf's value that `annotation` asks for with its only `out`; `who` names the leaf in errors.
LocalSplit split_of_leaf(const Graph& graph, const Node& leaf, const Annotation& annotation, int devices,
                         std::string_view who);

/// The data's splits, one per input in the order of the graph.
std::vector<LocalSplit> splits_of_data(const Graph& graph, const Annotation& dataset, int devices);

/// The layout, in the axes of `split`, that `out` asks for: the result as it is, all-reduced, or reduce-scattered
/// over dim 0. Throws: Error that says which of them there are.
Layout asked_result(const Rule& rule, const LocalSplit& split, const TensorSplit& out, const Shape& shape);

}  // namespace shardwright
