#include "shardwright/plan/leaves.h"

#include <algorithm>
#include <numeric>

namespace shardwright {

Reader first_forward_reader(const Graph& graph, ValueId v) {
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward) continue;
    const auto it = std::find(node.operands.begin(), node.operands.end(), v);
    if (it != node.operands.end()) return {id, static_cast<std::size_t>(it - node.operands.begin())};
  }
  return {};
}

std::vector<Reader> first_forward_readers(const Graph& graph) {
  std::vector<Reader> out(graph.values.size());
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    for (std::size_t i = 0; node.phase == Phase::forward && i < node.operands.size(); ++i)
      if (Reader& first = out[static_cast<std::size_t>(node.operands[i].index)]; !first.node.is_valid())
        first = {{n}, i};
  }
  return out;
}

Layout stored(Layout read) { return without_halo(reduced(std::move(read))); }

int replicas_that_share(int replicas, int group) {
  return group == 0 || group >= replicas ? replicas : std::gcd(replicas, group);
}

Axes axes_that_share(const Layout& layout, const Mesh& mesh, int group) {
  const Axes unused = mesh.all_axes().without(layout.used());
  int left = replicas_that_share(mesh.count(unused), group);
  Axes out;
  for (int i = unused.size(); i-- > 0;) {
    const int size = mesh.size_of(unused[i]);
    if (size == 1 || left % size) continue;
    out.push_back(unused[i]);
    left /= size;
  }
  return out.sorted();
}

Layout shard_over(const Layout& layout, const Axes& more, const Mesh& mesh, const Shape& shape) {
  Layout out = layout;
  const auto of_one_rank = [&](std::size_t d) { return largest_part(out.dims[d], mesh, shape[d]); };
  const auto divides = [&](const Axes& axes, std::int64_t size) {
    return largest_part(axes, mesh, size) * mesh.count(axes) == size;
  };
  for (int a : more) {
    std::size_t dim = shape.size();
    for (std::size_t d = shape.size(); d-- > 0;)
      if (divides(out.dims[d].with({a}), shape[d])) dim = d;
    if (dim == shape.size())
      for (std::size_t d = 0; d < shape.size(); ++d)
        if (of_one_rank(d) > (dim == shape.size() ? 1 : of_one_rank(dim))) dim = d;
    if (dim < shape.size()) out.dims[dim].push_back(a);
  }
  return out;
}

namespace {

Layout shared_among_replicas(const Layout& layout, std::span<const Mesh> meshes, const Type& type,
                             const OptimizerParallel& options) {
  if (type.bytes() < options.threshold) return layout;
  const Mesh& mesh = meshes[static_cast<std::size_t>(layout.mesh)];
  return shard_over(layout, axes_that_share(layout, mesh, options.group), mesh, type.shape);
}

}  // namespace

Layout weight_layout(const Layout& read, std::span<const Mesh> meshes, const Type& type,
                     const OptimizerParallel& options) {
  return options.level >= 3 ? shared_among_replicas(read, meshes, type, options) : read;
}

Layout state_layout(const Layout& weight, std::span<const Mesh> meshes, const Type& type,
                    const OptimizerParallel& options) {
  // A weight of level 3 is shared already: another time would take more replicas than a group has.
  const bool is_shared = options.level >= 3 && options.group > 0;
  return options.level == 0 || is_shared ? weight : shared_among_replicas(weight, meshes, type, options);
}

std::optional<Layout> gradient_layout(const Layout& weight, std::span<const Mesh> meshes, const Type& type,
                                      const OptimizerParallel& options) {
  if (options.level < 2 || type.bytes() < options.threshold) return std::nullopt;
  return state_layout(weight, meshes, type, options);
}

}  // namespace shardwright
