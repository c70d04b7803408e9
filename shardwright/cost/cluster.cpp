#include "shardwright/cost/cluster.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/cost/mixed_cluster.h"

namespace shardwright {
namespace {

/// `8xh100` and `h100x8` as they are written here; else what is written alike.
std::string preset_meant_by(std::string_view name, std::span<const std::string> known) {
  for (std::size_t x = name.find('x'); x != name.npos; x = name.find('x', x + 1)) {
    std::string_view preset = name.substr(0, x), devices = name.substr(x + 1);
    if (to_integer(preset)) std::swap(preset, devices);
    if (to_integer(devices) && std::ranges::find(known, preset) != known.end())
      return fmt::format(" (did you mean {}:{}?)", preset, devices);
  }
  return near_names(name, known);
}

const ClusterPreset& preset_called(std::string_view name, std::string_view whole) {
  std::vector<std::string> known;
  for (const ClusterPreset& p : cluster_presets()) {
    if (p.cluster.name == name) return p;
    known.push_back(p.cluster.name);
  }
  throw error("cluster '{}' is unknown{}; there are {}, and files that end in .yaml", whole,
              preset_meant_by(name, known), join(known, ", "));
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
                        .member_seconds = level.member_seconds,
                        .wiring = level.wiring,
                        .devices = level.devices,
                        .level = static_cast<int>(&level - cluster.links.data())};
    out.insert(out.begin(), {ranks / std::max(joined, 1), link});
    joined = ranks;
  }
  return out;
}

}  // namespace

std::string_view name_of(WorkKind kind) {
  constexpr std::array<std::string_view, work_kinds.size()> names{
      "contraction", "convolution", "streaming", "chain", "weight_convolution", "update", "loss"};
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

/// The links of `level` among blocks of so many of its devices: where each is wired to each, or along the dims of a cube,
/// the wires to the others are of no use.
LinkLevel within(LinkLevel level, int devices) {
  const auto of = [&](double all, double some) { level.bytes_per_second *= some / all; };
  if (devices > 1 && level.wiring == Wiring::mesh) of(level.devices - 1, devices - 1);
  if (devices > 1 && level.wiring == Wiring::cube) of(std::log2(level.devices), std::log2(devices));
  level.devices = devices;
  return level;
}

}  // namespace

Cluster Cluster::part(int first, int count) const {
  if (first < 0 || count < 1 || first > devices() - count)
    throw error("{} devices from {} on: cluster {} has {}", count, first, name, devices());
  std::vector<Cluster> own = part_of_kinds(*this, first, count);
  if (own.size() == 1) return std::move(own.front());
  // Blocks of the part that no border of the cluster's blocks of `block` devices cuts.
  const auto uncut = [&](int block) {
    const int border = block - first % block;  // the first one inside, then each `block` further on
    if (border >= count) return count;
    return border + block < count ? std::gcd(std::gcd(border, block), count) : std::gcd(border, count);
  };
  Cluster out = *this;
  out.devices_per_node = uncut(devices_per_node);
  out.nodes = count / out.devices_per_node;
  out.links.clear();
  for (const LinkLevel& level : links) {
    const int block = uncut(level.devices), inner = out.links.empty() ? 1 : out.links.back().devices;
    if (block > inner || (count == 1 && out.links.empty())) out.links.push_back(within(level, block));
  }
  set_kinds(out, std::move(own));
  return out;
}

std::optional<double> Cluster::price_of(double step_seconds) const {
  constexpr double seconds_per_hour = 3600;
  if (!price_per_hour) return std::nullopt;
  return *price_per_hour * devices() * step_seconds / seconds_per_hour;
}

int level_in(const Cluster& cluster, LinkLevel link) {
  const auto is_same = [&](const LinkLevel& level) {
    link.devices = level.devices;
    link.bytes_per_second = level.bytes_per_second;
    return level == link;
  };
  const auto found = std::ranges::find_if(cluster.links, is_same);
  if (found == cluster.links.end() && !cluster.kinds.empty()) {  // of one kind of devices alone
    const auto joins = [&](const LinkLevel& level) { return level.devices >= link.devices; };
    return static_cast<int>(std::ranges::find_if(cluster.links, joins) - cluster.links.begin());
  }
  require(found != cluster.links.end(), "cluster {} has no link {}", cluster.name, link.kind);
  return static_cast<int>(found - cluster.links.begin());
}

namespace {

/// Adds the links between nodes of a preset: those of several nodes, in blocks as large as all of them can be made of, and
/// the last, unless all are joined already.
void join_nodes(Cluster& cluster, const Cluster& preset) {
  const int all = cluster.devices(), node = cluster.devices_per_node;
  for (const LinkLevel& level : std::span(preset.links).first(preset.links.size() - 1)) {
    if (level.devices <= preset.devices_per_node) continue;
    int block = std::min(level.devices, all) / node * node;
    while (block > node && all % block != 0) block -= node;
    if (block <= node) continue;
    if (cluster.links.back().kind == level.kind) cluster.links.pop_back();  // of a node alone
    cluster.links.push_back(within(level, block));
  }
  if (cluster.links.back().devices < all) cluster.links.push_back(preset.links.back());
}

/// `h100:8+a100-80g:8`
Cluster several_called(std::string_view name) {
  std::vector<Cluster> kinds;
  LinkLevel between;
  for (const std::string_view one : split(name, '+')) try {
      kinds.push_back(cluster_called(one));
      const LinkLevel& last = preset_called(one.substr(0, one.find(':')), one).cluster.links.back();
      between = kinds.size() == 1 ? last : slower_of(between, last);
    } catch (const Error& e) {
      throw with_context(e, fmt::format("cluster '{}'", name));
    }
  return joined(std::string(name), std::move(kinds), between);
}

bool is_cluster_file(std::string_view name) { return name.ends_with(".yaml") || name.ends_with(".yml"); }

}  // namespace

Cluster cluster_called(std::string_view name) {
  if (is_cluster_file(name)) return load_cluster(std::string(name));
  if (name.find('+') != name.npos) return several_called(name);
  const std::size_t colon = name.find(':');
  const Cluster& one = preset_called(name.substr(0, colon), name).cluster;
  Cluster cluster = one;
  const Size size = size_of(colon == name.npos ? "" : name.substr(colon + 1), one.devices_per_node, name);
  cluster.name = name;
  cluster.nodes = size.nodes;
  cluster.devices_per_node = size.devices_per_node;
  cluster.links = one.part(0, std::min(size.devices_per_node, one.devices())).links;
  if (size.nodes > 1) join_nodes(cluster, one);
  cluster.links.back().devices = cluster.devices();
  return cluster;
}

std::optional<DType> short_type_of(const Cluster& cluster) {
  const PeakFlops& peak = cluster.flops_per_second;
  if (cluster.links.front().kind == memory_link) return std::nullopt;
  for (const DType type : {DType::bf16, DType::f16})
    if (peak.of(type) > peak.f32) return type;
  return std::nullopt;
}

std::optional<double> throttled_host_bandwidth() {
  const char* const said = std::getenv("SHARDWRIGHT_HOST_BANDWIDTH");
  if (!said) return std::nullopt;
  const auto rate = to_quantity(said, "B/s");
  if (!rate || !(*rate > 0 && *rate < 1e15))
    throw error("SHARDWRIGHT_HOST_BANDWIDTH={}: should be a rate above 0, such as 500MB/s", said);
  return rate;
}

Cluster host_cluster(int devices) { return cluster_called(fmt::format("cpu:{}", devices)); }

bool is_preset(const Cluster& cluster) try {
  if (is_cluster_file(cluster.name)) return false;
  Cluster usual = cluster;
  usual.memory_margin.reset();
  usual.routing_imbalance = 1;
  const auto has_its_name = [kind = std::string_view(cluster.name).substr(0, cluster.name.find(':'))](
                                const ClusterPreset& p) { return p.cluster.name == kind; };
  return std::ranges::any_of(cluster_presets(), has_its_name) && cluster_called(cluster.name) == usual;
} catch (const Error&) {  // the name is only what it was called
  return false;
}

Cluster resized(const Cluster& cluster, int devices) {
  if (devices == cluster.devices()) return cluster;
  if (!is_preset(cluster) || !cluster.kinds.empty()) return cluster.part(0, devices);
  const std::string_view name = cluster.name, kind = name.substr(0, name.find(':'));
  const int per_node = cluster.devices_per_node;
  const bool fills_nodes = name.find('x', kind.size()) != name.npos && devices % per_node == 0;
  Cluster out = cluster_called(fills_nodes ? fmt::format("{}:{}x{}", kind, devices / per_node, per_node)
                                           : fmt::format("{}:{}", kind, devices));
  out.memory_margin = cluster.memory_margin;
  out.routing_imbalance = cluster.routing_imbalance;
  return out;
}

MeshCost mesh_cost(const Cluster& cluster, const Mesh& mesh) {
  MeshCost cost{.axes = {},
                .levels = {},
                .copy_seconds_per_byte = 1 / cluster.memory_bytes_per_second,
                .routing_imbalance = cluster.routing_imbalance};
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
