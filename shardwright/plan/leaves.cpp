#include "shardwright/plan/leaves.h"

#include <algorithm>

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

Layout shard_over_replicas(const Layout& layout, const Mesh& mesh, const Shape& shape) {
  Layout out = layout;
  for (int a : mesh.all_axes().without(layout.used()))
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Axes wider = out.dims[d].with({a});
      if (mesh.size_of(a) == 1 || shape[d] % mesh.count(wider)) continue;
      out.dims[d] = wider;
      break;
    }
  return out;
}

Layout weight_layout(const Layout& read, std::span<const Mesh> meshes, const Shape& shape, int level) {
  return level >= 3 ? shard_over_replicas(read, meshes[static_cast<std::size_t>(read.mesh)], shape) : read;
}

Layout state_layout(const Layout& weight, std::span<const Mesh> meshes, const Shape& shape, int level) {
  return level >= 1 ? shard_over_replicas(weight, meshes[static_cast<std::size_t>(weight.mesh)], shape)
                    : weight;
}

}  // namespace shardwright
