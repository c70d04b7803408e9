// A cluster: the machine that a plan is for. Nodes of devices, their speed and memory, and the links between them.
//
// Ranks are numbered node by node, so devices that a fast link joins are neighbours. Text: a preset with the number
// of devices, `a100-80g:16`, or of nodes and devices in each, `a100-80g:2x8`; several of them where devices are of several kinds,
// `h100:8+a100-80g:2x8`; or a YAML file (cluster_file.h). A cluster is a value: what holds one prices by it wherever the file is, and whatever it says later.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/dtype.h"
#include "shardwright/layout/mesh.h"
#include "shardwright/layout/redistribution.h"

namespace shardwright {

/// That a cluster may have.
constexpr int most_devices = 1 << 20;

/// The kind of link that joins threads of one host.
constexpr std::string_view memory_link = "memory";

/// What joins blocks of neighbouring devices.
struct LinkLevel {
  std::string kind;             // nvlink, infiniband, ...
  int devices = 1;              // in a block
  double latency_seconds = 0;   // of a round of messages
  double bytes_per_second = 1;  // that a device receives while all devices communicate
  double start_seconds = 0;     // of a collective, beside its messages
  double member_seconds = 0;    // of what goes round as a ring, for each further device of it
  Wiring wiring = Wiring::switched;
  bool operator==(const LinkLevel&) const = default;
};

/// Peak rates of one device for matrix products.
struct PeakFlops {
  double f64 = 0, f32 = 0, bf16 = 0, f16 = 0;

  /// Floating-point operations per second. What a device has no unit for runs at the rate of f32.
  double of(DType dtype) const;
  bool operator==(const PeakFlops&) const = default;
};

/// What has been touched within the last `bytes` of traffic streams at this rate.
struct CacheLevel {
  std::int64_t bytes = 0;
  double bytes_per_second = 1;
  bool operator==(const CacheLevel&) const = default;
};
constexpr std::size_t most_caches = 4;

/// What limits a kernel (compute.h reads it off its rule).
enum class WorkKind : std::uint8_t {
  contraction,
  convolution,
  streaming,
  chain,
  weight_convolution,
  update,
  loss
};
constexpr std::array<WorkKind, 7> work_kinds{
    WorkKind::contraction,        WorkKind::convolution, WorkKind::streaming, WorkKind::chain,
    WorkKind::weight_convolution, WorkKind::update,      WorkKind::loss};
std::string_view name_of(WorkKind kind);
/// Memory limits it.
constexpr bool streams(WorkKind kind) {
  return kind == WorkKind::streaming || kind == WorkKind::update || kind == WorkKind::loss;
}
/// Of which it is a case: a cluster that says nothing of `kind` has that one's figures.
constexpr WorkKind general_kind(WorkKind kind) {
  return kind == WorkKind::weight_convolution ? WorkKind::convolution
         : streams(kind)                      ? WorkKind::streaming
                                              : kind;
}

/// How much of a peak rate kernels of one kind reach: best * w / (w + half) for work of w seconds at the peak.
struct Efficiency {
  double best = 1;
  double half_seconds = 0;
  bool operator==(const Efficiency&) const = default;
};

/// What tensor units want of products: rows of what is read that are whole lines. Else a share of their rate is reached.
struct RowLines {
  std::int64_t line_bytes = 16;  // 0: they want nothing
  double product = 0.5;          // the share, of a product of two matrices
  double batched = 0.1;          // of many at once
  bool operator==(const RowLines&) const = default;
};

/// The host that devices are in, as each of them finds it.
struct HostLink {
  double bytes_per_second = 25e9;  // each way, both at once
  double latency_seconds = 10e-6;
  std::int64_t memory_bytes = 0;  // of a node; 0: nobody has said
  PeakFlops flops_per_second{
      .f64 = 0.5e12, .f32 = 1e12, .bf16 = 1e12, .f16 = 0.5e12};  // of a node's processors
  double memory_bytes_per_second = 200e9;                        // likewise
  bool operator==(const HostLink&) const = default;
};
/// That SHARDWRIGHT_HOST_BANDWIDTH says, where it slows the copies of CPU devices. Throws: Error if it is no rate.
std::optional<double> throttled_host_bandwidth();

/// Of what has no tensor units.
constexpr RowLines no_lines{.line_bytes = 0, .product = 1, .batched = 1};

/// Of accelerators' memory: allocators break it into pieces, and forecasts of it are out by as much.
constexpr double usual_margin = 0.06;

struct Cluster {
  std::string name;  // as the user wrote it
  int nodes = 1;
  int devices_per_node = 1;
  PeakFlops flops_per_second;           // of one device
  double memory_bytes_per_second = 1;   // of one device
  std::vector<CacheLevel> caches = {};  // of one device, the smallest first; none: all streams from memory
  std::int64_t memory_bytes = 0;        // of one device
  std::int64_t reserved_bytes = 0;      // of these, what driver and runtime take
  /// Of what these leave, the share that plans keep free; nobody has said: `usual_margin` where they take any.
  std::optional<double> memory_margin = {};
  double kernel_seconds = 0;  // to start a kernel
  std::array<Efficiency, work_kinds.size()> efficiency{
      {{0.7, 20e-6},
       {0.5, 20e-6},
       {0.75, 15e-6},
       {0.7, 20e-6},
       {0.5, 20e-6},
       {0.75, 15e-6},
       {0.2, 15e-6}}};  // per kind of work; docs/cost-model.md
  RowLines rows = {};
  std::vector<LinkLevel> links;  // innermost first; the last joins all devices
  HostLink host = {};
  double link_efficiency = 0.75;  // of a link's bandwidth, what collectives reach
  double overlap = 0.9;           // of communication, what runs beside compute without slowing it
  /// Of devices that share experts, how many times the mean of what their tokens take the busiest has to do.
  double routing_imbalance = 1;
  /// Of one device, in whatever currency; empty: nobody has said.
  std::optional<double> price_per_hour = {};
  /// Where devices are of several kinds, those of each in the order of ranks; what stands above is then what the slowest have, and the
  /// least memory (mixed_cluster.h).
  std::vector<Cluster> kinds = {};

  int devices() const { return nodes * devices_per_node; }
  double margin() const { return memory_margin.value_or(reserved_bytes > 0 ? usual_margin : 0); }
  const Efficiency& efficiency_of(WorkKind kind) const { return efficiency[static_cast<std::size_t>(kind)]; }

  /// The `count` devices from `first` on; of one kind, if they are. A link joins blocks of as many of them as always lie in one of its blocks.
  /// Throws: Error unless the cluster has them.
  Cluster part(int first, int count) const;

  /// What a step of so many seconds costs on all devices; nothing where no price is said.
  std::optional<double> price_of(double step_seconds) const;

  bool operator==(const Cluster&) const = default;
};

/// Which of the links of `cluster` those of a part of it are.
int level_in(const Cluster& cluster, LinkLevel link);

/// A kind of machine that is sold in any number.
struct ClusterPreset {
  Cluster cluster;  // one node; `name` is the preset's, the last link joins nodes
  std::string doc;  // what it is, and the source of its figures
};
std::span<const ClusterPreset> cluster_presets();

/// The cluster called `name`: `PRESET:N`, `PRESET:NODESxPER_NODE` or a file that ends in .yaml or .yml. N devices
/// fill nodes evenly, as few as possible.
/// Throws: Error if there is no such preset or file, or the numbers are none or too large.
Cluster cluster_called(std::string_view name);

/// `cluster` with so many devices: another number of a preset, in nodes that are filled as it fills its own; of a file the
/// first of its devices. Throws: Error unless it has as many.
Cluster resized(const Cluster& cluster, int devices);

/// That of as many threads of this host as there are devices.
Cluster host_cluster(int devices);

/// The short type that networks are trained in on accelerators like its devices: what they have units for, bf16 before fp16.
/// Nothing where they have none, or are threads of a host.
std::optional<DType> short_type_of(const Cluster& cluster);

/// Whether its name says all of it but `memory_margin`: that of a preset with these figures.
bool is_preset(const Cluster& cluster);

/// What each axis of `mesh` costs to communicate over: the fastest link that joins all its ranks, and the levels of
/// links inside it.
MeshCost mesh_cost(const Cluster& cluster, const Mesh& mesh);

/// What programs on `meshes` are redistributed with and priced by: shards stay even where they can.
Redistributor redistributor_for(std::span<const Mesh> meshes, const Cluster& cluster);

}  // namespace shardwright
