#include "shardwright/cost/cluster.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/cost/cluster_file.h"

namespace shardwright {
namespace {

const ClusterPreset& preset_called(std::string_view name, std::string_view whole) {
  std::vector<std::string> known;
  for (const ClusterPreset& p : cluster_presets()) {
    if (p.cluster.name == name) return p;
    known.push_back(p.cluster.name);
  }
  throw error("cluster '{}' is unknown{}; there are {}, and files that end in .yaml", whole,
              near_names(name, known), join(known, ", "));
}

struct Size {
  int nodes, devices_per_node;
};

/// Nodes of at most `most` devices each: filled evenly, as few as possible.
Size even_size(int devices, int most) {
  int per_node = std::min(devices, most);
  while (devices % per_node != 0) --per_node;
  return {devices / per_node, per_node};
}

/// `16`, as nodes of at most `most` devices each, or `2x8`.
Size size_of(std::string_view text, int most, std::string_view name) {
  const auto number = [&](std::string_view part) {
    const auto n = to_integer(part);
    if (!n || *n < 1 || *n > most_devices)
      throw error("cluster '{}': write {}:N or {}:NODESxPER_NODE with numbers from 1 to {}", name,
                  name.substr(0, name.find(':')), name.substr(0, name.find(':')), most_devices);
    return static_cast<int>(*n);
  };
  if (const std::size_t x = text.find('x'); x != text.npos) {
    const Size size{number(text.substr(0, x)), number(text.substr(x + 1))};
    if (size.nodes > most_devices / size.devices_per_node)
      throw error("cluster '{}' has more than {} devices", name, most_devices);
    return size;
  }
  return even_size(number(text), most);
}

/// Link levels of nodes of this many devices: those that still join something, then the one between nodes.
std::vector<LinkLevel> links_for(const Cluster& cluster, const std::vector<LinkLevel>& all) {
  std::vector<LinkLevel> out;
  int joined = 1;
  for (std::size_t i = 0; i + 1 < all.size() && (out.empty() || joined < cluster.devices_per_node); ++i) {
    out.push_back(all[i]);
    joined = out.back().devices = std::min(all[i].devices, cluster.devices_per_node);
  }
  if (cluster.nodes > 1) out.push_back(all.back());
  out.back().devices = cluster.devices();
  return out;
}

/// Ranks `stride` apart that lie in one block of `devices`, counted from the start of a group of `size`; 0 if groups
/// and blocks straddle each other.
int ranks_within(int devices, int stride, int size) {
  if (devices % (stride * size) == 0) return size;
  return stride * size % devices == 0 && devices % stride == 0 ? devices / stride : 0;
}

/// The levels of links that join `size` ranks `stride` apart, outermost first.
std::vector<GroupLink> levels_of(const Cluster& cluster, int stride, int size) {
  std::vector<GroupLink> out;
  int joined = 0;
  for (const LinkLevel& level : cluster.links) {
    const int ranks = ranks_within(level.devices, stride, size);
    if (ranks <= joined || (ranks == 1 && size > 1)) continue;
    const LinkCost link{.start_seconds = level.start_seconds,
                        .seconds_per_byte = 1 / (level.bytes_per_second * cluster.link_efficiency),
                        .latency_seconds = level.latency_seconds,
                        .wiring = level.wiring,
                        .devices = level.devices};
    out.insert(out.begin(), {ranks / std::max(joined, 1), link});
    joined = ranks;
  }
  return out;
}

}  // namespace

std::string_view name_of(WorkKind kind) {
  constexpr std::array<std::string_view, 3> names{"contraction", "convolution", "streaming"};
  return names[static_cast<std::size_t>(kind)];
}

double PeakFlops::of(DType dtype) const {
  const double rate = dtype == DType::f64    ? f64
                      : dtype == DType::bf16 ? bf16
                      : dtype == DType::f16  ? f16
                                             : f32;
  return rate > 0 ? rate : f32;
}

namespace {

/// `devices` neighbouring devices of `cluster`. Links that would join no whole number of what is within are left out.
Cluster part_of(Cluster cluster, int devices) {
  const int whole_node = cluster.devices_per_node;
  const auto [nodes, per_node] = even_size(devices, whole_node);
  cluster.nodes = nodes;
  cluster.devices_per_node = per_node;
  std::vector<LinkLevel> links;
  for (LinkLevel level : cluster.links) {
    level.devices = std::min(level.devices, level.devices <= whole_node ? per_node : devices);
    while (!links.empty() && level.devices % links.back().devices != 0) links.pop_back();
    if (!links.empty() && links.back().devices == level.devices) continue;
    links.push_back(level);
  }
  cluster.links = std::move(links);
  return cluster;
}

}  // namespace

Cluster cluster_called(std::string_view name) {
  if (name.ends_with(".yaml") || name.ends_with(".yml")) return load_cluster(std::string(name));
  if (const std::size_t mark = name.rfind('#'); mark != name.npos) {
    const Cluster whole = cluster_called(name.substr(0, mark));
    const auto devices = to_integer(name.substr(mark + 1));
    if (!devices || *devices < 1 || *devices > whole.devices())
      throw error("cluster '{}': '#' should be followed by a number of its devices, 1 to {}", name,
                  whole.devices());
    Cluster part = part_of(whole, static_cast<int>(*devices));
    part.name = name;
    return part;
  }
  const std::size_t colon = name.find(':');
  const Cluster& one = preset_called(name.substr(0, colon), name).cluster;
  Cluster cluster = one;
  const Size size = size_of(colon == name.npos ? "" : name.substr(colon + 1), one.devices_per_node, name);
  cluster.name = name;
  cluster.nodes = size.nodes;
  cluster.devices_per_node = size.devices_per_node;
  cluster.links = links_for(cluster, one.links);
  return cluster;
}

std::string part_name(std::string_view name, int devices) { return fmt::format("{}#{}", name, devices); }

MeshCost mesh_cost(const Cluster& cluster, const Mesh& mesh) {
  MeshCost cost{.axes = {}, .levels = {}, .copy_seconds_per_byte = 1 / cluster.memory_bytes_per_second};
  for (int a = 0; a < mesh.axis_count(); ++a) {
    cost.levels.push_back(levels_of(cluster, mesh.stride_of(a), mesh.size_of(a)));
    cost.axes.push_back(cost.levels.back().front().link);
  }
  return cost;
}

Redistributor redistributor_for(std::span<const Mesh> meshes, const Cluster& cluster) {
  std::vector<MeshCost> costs;
  for (const Mesh& mesh : meshes) costs.push_back(mesh_cost(cluster, mesh));
  return Redistributor({meshes.begin(), meshes.end()}, std::move(costs), {.even_only = true});
}

}  // namespace shardwright
