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
  const int devices = number(text);
  int per_node = std::min(devices, most);
  while (devices % per_node != 0) --per_node;
  return {devices / per_node, per_node};
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

/// `devices` neighbouring devices of `cluster`: within one node, or whole nodes.
Cluster part_of(Cluster cluster, int devices) {
  const bool is_in_node = devices <= cluster.devices_per_node;
  cluster.nodes = is_in_node ? 1 : devices / cluster.devices_per_node;
  if (is_in_node) cluster.devices_per_node = devices;
  const auto last = std::find_if(cluster.links.begin(), cluster.links.end(),
                                 [devices](const LinkLevel& level) { return level.devices >= devices; });
  if (last == cluster.links.end()) return cluster;
  last->devices = devices;
  cluster.links.erase(last + 1, cluster.links.end());
  return cluster;
}

}  // namespace

Cluster cluster_called(std::string_view name) {
  if (const std::size_t mark = name.rfind('#'); mark != name.npos) {
    const Cluster whole = cluster_called(name.substr(0, mark));
    const auto devices = to_integer(name.substr(mark + 1));
    const int per_node = whole.devices_per_node;
    if (!devices || *devices < 1 || *devices > whole.devices() ||
        (*devices > per_node && *devices % per_node))
      throw error(
          "cluster '{}': '#' should be followed by a number of devices of one node, or of whole nodes", name);
    Cluster part = part_of(whole, static_cast<int>(*devices));
    part.name = name;
    return part;
  }
  if (name.ends_with(".yaml") || name.ends_with(".yml")) return load_cluster(std::string(name));
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

MeshCost mesh_cost(const Cluster& cluster, const Mesh& mesh) {
  MeshCost cost{.axes = {}, .levels = {}, .copy_seconds_per_byte = 1 / cluster.memory_bytes_per_second};
  for (int a = 0; a < mesh.axis_count(); ++a) {
    cost.levels.push_back(levels_of(cluster, mesh.stride_of(a), mesh.size_of(a)));
    cost.axes.push_back(cost.levels.back().front().link);
  }
  return cost;
}

}  // namespace shardwright
