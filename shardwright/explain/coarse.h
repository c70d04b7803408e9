// A planned graph told on fewer axes: neighbouring axes that all its strategies and layouts have together become one.
// Paths between layouts are searched faster there, and there are fewer strategies to compare.
#pragma once

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Joins axes of those meshes of `graph` that have more than `most` of them. A joined axis is called after all its
/// parts, outermost first: `dp/sp`.
Graph on_few_axes(Graph graph, int most);

}  // namespace shardwright
