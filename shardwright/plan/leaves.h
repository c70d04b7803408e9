// How leaves lie: inputs, parameters, and the optimizer's states.
//
// A leaf lies as its first forward reader wants it, a state as its parameter does. Optimizer parallelism shards them
// further, over the axes along which they would be repeated: states from level 1 on, weights from level 3 on.
#pragma once

#include <span>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Who reads a value, and as which operand.
struct Reader {
  NodeId node;  // invalid: nobody
  std::size_t operand = 0;
};
Reader first_forward_reader(const Graph& graph, ValueId v);
/// The same of every value.
std::vector<Reader> first_forward_readers(const Graph& graph);

/// The layout in which a leaf lies that is read in `read`: neither partial nor with a halo.
Layout stored(Layout read);

/// `layout`, sharded over the axes that it leaves unused as far as they divide: dim 0 first.
Layout shard_over_replicas(const Layout& layout, const Mesh& mesh, const Shape& shape);

/// A parameter's and its states' layout at a level of optimizer parallelism.
Layout weight_layout(const Layout& read, std::span<const Mesh> meshes, const Shape& shape, int level);
Layout state_layout(const Layout& weight, std::span<const Mesh> meshes, const Shape& shape, int level);

}  // namespace shardwright
