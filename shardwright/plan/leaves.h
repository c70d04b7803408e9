// How leaves lie: inputs, parameters, and the optimizer's states.
//
// A leaf lies as its first forward reader wants it, a state as its parameter does. Optimizer parallelism shards them
// further, over the axes along which they would be repeated: states from level 1 on, gradients from level 2 on, weights
// from level 3 on. What no axis divides is cut unevenly, at the floors that all layouts cut at.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// What is sharded over replicas, and how far.
struct OptimizerParallel {
  int level = 0;                   // 1 state, 2 + gradients, 3 + weights
  std::int64_t threshold = 65536;  // bytes of the whole parameter; a smaller one stays as it is
  int group = 0;                   // at most so many replicas share a state between them; 0: all
  bool operator==(const OptimizerParallel&) const = default;
};

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

/// How many of `replicas` share a state: all of them, or the most that divide them and `group`.
int replicas_that_share(int replicas, int group);

/// The axes that `layout` leaves unused and over which its replicas share a state, ascending: the minor ones, so that
/// neighbours share. Axes are taken whole.
Axes axes_that_share(const Layout& layout, const Mesh& mesh, int group);

/// `layout`, sharded over `more` axes: of the dims that an axis divides the first, else unevenly the dim of which there
/// is most.
Layout shard_over(const Layout& layout, const Axes& more, const Mesh& mesh, const Shape& shape);

/// A parameter's and its states' layout. `type` is that of the whole parameter.
Layout weight_layout(const Layout& read, std::span<const Mesh> meshes, const Type& type,
                     const OptimizerParallel& options);
Layout state_layout(const Layout& weight, std::span<const Mesh> meshes, const Type& type,
                    const OptimizerParallel& options);

/// In which layout the gradients of a parameter are kept and accumulated: its state's from level 2 on, else that in which
/// they come out.
std::optional<Layout> gradient_layout(const Layout& weight, std::span<const Mesh> meshes, const Type& type,
                                      const OptimizerParallel& options);

}  // namespace shardwright
