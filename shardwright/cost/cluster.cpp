#include "shardwright/cost/cluster.h"

#include "shardwright/base/text.h"

namespace shardwright {

Cluster cluster_called(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (name.substr(0, colon) != "cpu") throw error("cluster '{}' is unknown; there is cpu:N", name);
  const auto n = to_integer(colon == std::string_view::npos ? "" : name.substr(colon + 1));
  if (!n || *n < 1 || *n > 4096) throw error("cluster '{}': write cpu:N with N from 1 to 4096", name);
  // Threads on one host: a barrier costs about 5 us with more ranks than cores, a core copies 20 GB/s.
  return {.name = std::string(name),
          .devices = static_cast<int>(*n),
          .link = {.latency_seconds = 5e-6, .seconds_per_byte = 5e-11}};
}

MeshCost mesh_cost(const Cluster& cluster, const Mesh& mesh) {
  return {std::vector<LinkCost>(mesh.axes.size(), cluster.link), 1 / cluster.memory_bytes_per_second};
}

}  // namespace shardwright
