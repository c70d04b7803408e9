// Kinds of machines by name. Rates are peaks, from public sheets; links count one direction, per device.

#include "shardwright/cost/cluster.h"

namespace shardwright {
namespace {

constexpr double tera = 1e12, giga = 1e9;
constexpr std::int64_t gigabyte = 1'000'000'000, reserved_on_accelerators = 2 * gigabyte;
constexpr std::int64_t gibibyte = 1LL << 30;  // stacks of memory are sold by it, and called GB

/// What a collective costs beside its messages, as frameworks start them: measured on V100 and A100 (docs/cost-model.md).
constexpr double collective_start = 40e-6;

/// Figures measured on a 2-core host with AVX-512, one device a core: products by oneDNN, a core's share of memory. Ranks
/// read each other's memory after a barrier, about 5 us with more ranks than cores, and a core copies 20 GB/s. What
/// communicates is the core that computes, so that nothing overlaps.
ClusterPreset cpu() {
  return {{.name = "cpu",
           .devices_per_node = most_devices,  // all on one host
           .flops_per_second =
               {.f64 = 0.0875 * tera, .f32 = 0.175 * tera, .bf16 = 0.09 * tera, .f16 = 0.09 * tera},
           .memory_bytes_per_second = 14 * giga,
           .memory_bytes = 8 * gigabyte,
           .efficiency = {{{0.87, 0.3e-6},
                           {0.97, 0.3e-6},
                           {1, 0.2e-6},
                           {0.45, 0.3e-6},
                           {0.97, 0.3e-6},
                           {1, 0.2e-6},
                           {1, 0.2e-6}}},
           .rows = no_lines,
           .links = {{std::string(memory_link), most_devices, 0, 20 * giga, 5e-6},
                     {"ethernet", most_devices, 50e-6, 1.25 * giga}},
           .host = {.bytes_per_second = throttled_host_bandwidth().value_or(5 * giga),
                    .latency_seconds = 20e-6,
                    .flops_per_second =
                        {.f64 = 0.0875 * tera, .f32 = 0.175 * tera, .bf16 = 0.09 * tera, .f16 = 0.09 * tera},
                    .memory_bytes_per_second = 14 * giga},
           .link_efficiency = 1,
           .overlap = 0},
          "threads of a host, a core each, measured; between hosts 10 Gb/s"};
}

/// Each further device of what goes round between nodes as a ring: between 384 and 1,536 devices of level 3, 7.5 us for each.
constexpr double member_seconds = 7.5e-6;

/// What is between the nodes of a machine, for each device: its share of the cards of a node.
struct Network {
  std::string kind = "infiniband";
  double latency_seconds = 10e-6;
  double bytes_per_second = 0;
};

LinkLevel between_nodes(const Network& n, int per_node) {
  return {n.kind, per_node, n.latency_seconds, n.bytes_per_second, collective_start, member_seconds};
}

/// NVIDIA V100 Tensor Core GPU datasheet (2020), SXM2. No unit for bf16. DGX-1 with V100: NVLink 300 GB/s both directions
/// together, four 100 Gb/s adapters for eight devices. Jean Zay (IDRIS): four devices and four 100 Gb/s Omni-Path cards to
/// a node, every two devices joined.
/// Their hosts have 512 GB, and 192.
ClusterPreset v100(std::string name, std::int64_t gigabytes, bool is_jean_zay, std::string doc) {
  const int per_node = is_jean_zay ? 4 : 8;
  return {{.name = std::move(name),
           .devices_per_node = per_node,
           .flops_per_second = {.f64 = 7.8 * tera, .f32 = 15.7 * tera, .bf16 = 0, .f16 = 125 * tera},
           .memory_bytes_per_second = 900 * giga,
           .memory_bytes = gigabytes * gibibyte,
           .reserved_bytes = reserved_on_accelerators,
           .kernel_seconds = 5e-6,
           .links = {{"nvlink", per_node, 10e-6, 150 * giga, collective_start, 0,
                      is_jean_zay ? Wiring::mesh : Wiring::cube},
                     between_nodes(
                         {is_jean_zay ? "omnipath" : "infiniband", 15e-6, (is_jean_zay ? 12.5 : 6.25) * giga},
                         per_node)},
           .host = {.memory_bytes = (is_jean_zay ? 192 : 512) * gigabyte}},
          std::move(doc)};
}

/// NVIDIA A100 datasheets (2021), SXM4, without sparsity; f32 outside tensor cores, as frameworks have it by default.
/// NVLink 600 GB/s both directions together. DGX A100: a 200 Gb/s adapter for each device, 2 TB in the host, with devices of 40 GB
/// 1 TB. Jean Zay: 512 GB.
ClusterPreset a100(std::string name, std::int64_t gigabytes, double memory_bytes_per_second,
                   const Network& network, double host_memory, std::string doc) {
  return {{.name = std::move(name),
           .devices_per_node = 8,
           .flops_per_second = {.f64 = 9.7 * tera, .f32 = 19.5 * tera, .bf16 = 312 * tera, .f16 = 312 * tera},
           .memory_bytes_per_second = memory_bytes_per_second,
           .memory_bytes = gigabytes * gibibyte,
           .reserved_bytes = reserved_on_accelerators,
           .kernel_seconds = 5e-6,
           .links = {{"nvlink", 8, 5e-6, 300 * giga, collective_start}, between_nodes(network, 8)},
           .host = {.memory_bytes = static_cast<std::int64_t>(host_memory)}},
          std::move(doc)};
}

/// What generations after A100 have in common: rates of one device, and its links.
struct Accelerator {
  std::string name;
  double memory = 0, memory_bytes_per_second = 0;  // bytes; a second
  PeakFlops flops = {};
  double products = 0.58, attention = 0.45;  // of the peak
  int per_node = 8;
  LinkLevel inside = {};  // of a node, or of several
  Network network = {};
  double host_bytes_per_second = 55 * giga, host_memory = 0;  // of a node; 0: they differ
};

ClusterPreset accelerator(const Accelerator& a, std::string doc) {
  ClusterPreset out{{.name = a.name,
                     .devices_per_node = a.per_node,
                     .flops_per_second = a.flops,
                     .memory_bytes_per_second = a.memory_bytes_per_second,
                     .memory_bytes = static_cast<std::int64_t>(a.memory),
                     .reserved_bytes = reserved_on_accelerators,
                     .kernel_seconds = 5e-6,
                     .links = {a.inside, between_nodes(a.network, a.inside.devices)},
                     .host = {.bytes_per_second = a.host_bytes_per_second,
                              .memory_bytes = static_cast<std::int64_t>(a.host_memory)}},
                    std::move(doc)};
  const auto set = [&](WorkKind kind, double best) {
    out.cluster.efficiency[static_cast<std::size_t>(kind)].best = best;
  };
  set(WorkKind::contraction, a.products);
  set(WorkKind::chain, a.attention);
  return out;
}

LinkLevel nvlink(int devices, double bytes_per_second, Wiring wiring = Wiring::switched) {
  return {"nvlink", devices, 5e-6, bytes_per_second, collective_start, 0, wiring};
}

constexpr PeakFlops whole_hopper{
    .f64 = 34 * tera, .f32 = 67 * tera, .bf16 = 989.4 * tera, .f16 = 989.4 * tera};

/// NVIDIA H100, H200 (2023), H800 and H20 datasheets, SXM, without sparsity. DGX H100: NVLink 900 GB/s both directions
/// together (H800: 400), a 400 Gb/s adapter for each device. Power holds their clocks below those that the peak is given at:
/// `products` of it is what large products reach, as in published runs (docs/cost-model.md). PCIe 5.0 to the host, which has
/// 2 TB in a DGX H100; the others are taken to have as much.
ClusterPreset hopper(std::string name, double gibibytes, double memory_bytes_per_second, double products,
                     std::string doc, const PeakFlops& flops = whole_hopper, double inside = 450 * giga) {
  return accelerator({.name = std::move(name),
                      .memory = gibibytes * gibibyte,
                      .memory_bytes_per_second = memory_bytes_per_second,
                      .flops = flops,
                      .products = products,
                      .inside = nvlink(8, inside),
                      .network = {.bytes_per_second = 50 * giga},
                      .host_memory = 2 * tera},
                     std::move(doc));
}

/// NVIDIA Blackwell datasheets (2024, 2025): HGX B200 and B300, eight to a node; GB200 and GB300, four to a tray and 72 joined
/// by NVLink 5, 1.8 TB/s both directions together. A 400 (B300, GB300: 800) Gb/s adapter for each device. f32 and f64 of B300
/// and GB300 are what is left of B200's. Hosts have 2 TB, the two of a tray 480 GB each. Shares of the peak are Hopper's: no
/// measurement of theirs is fitted.
ClusterPreset blackwell(std::string name, double gigabytes, double memory_bytes_per_second, double bf16,
                        double f64, bool is_rack, double network, std::string doc) {
  return accelerator({.name = std::move(name),
                      .memory = gigabytes * giga,
                      .memory_bytes_per_second = memory_bytes_per_second,
                      .flops = {.f64 = f64, .f32 = 75 * tera, .bf16 = bf16, .f16 = bf16},
                      .per_node = is_rack ? 4 : 8,
                      .inside = nvlink(is_rack ? 72 : 8, 900 * giga),
                      .network = {.bytes_per_second = network},
                      .host_memory = is_rack ? 0.96 * tera : 2 * tera},
                     std::move(doc));
}

/// NVIDIA GH200 datasheet (2023); four to a node, each with each other by six NVLinks of 25 GB/s (Alps, CSCS), 128 GB of
/// the host's memory and a 200 Gb/s Slingshot card for each.
ClusterPreset gh200() {
  return accelerator({.name = "gh200",
                      .memory = 96e9,
                      .memory_bytes_per_second = 4000 * giga,
                      .flops = whole_hopper,
                      .per_node = 4,
                      .inside = nvlink(4, 450 * giga, Wiring::mesh),
                      .network = {"slingshot", 10e-6, 25 * giga},
                      .host_bytes_per_second = 400 * giga,
                      .host_memory = 0.512 * tera},
                     "NVIDIA GH200 96 GB, 4 to a node (Alps); NVIDIA's data sheet, CSCS");
}

/// NVIDIA L4 and Ada GPU architecture (2023): what PCIe alone joins, through the memory of the host.
ClusterPreset ada(std::string name, double memory_bytes_per_second, const PeakFlops& flops,
                  double through_host, std::string doc) {
  return accelerator({.name = std::move(name),
                      .memory = 24 * static_cast<double>(gibibyte),
                      .memory_bytes_per_second = memory_bytes_per_second,
                      .flops = flops,
                      .products = 0.6,
                      .attention = 0.5,
                      .inside = {"pcie", 8, 10e-6, through_host, collective_start},
                      .network = {"ethernet", 20e-6, 1.5625 * giga},
                      .host_bytes_per_second = 25 * giga},
                     std::move(doc));
}

/// Passes over the scores of classes, in f32 and one by one, as MindFormers' runs with large vocabularies take them: twice
/// PyTorch's.
constexpr double loss_on_ascend = 0.1;

Cluster ascend(Cluster c) {
  c.efficiency[static_cast<std::size_t>(WorkKind::loss)].best = loss_on_ascend;
  return c;
}

/// Huawei, Ascend 910 at Hot Chips 31 (2019): 256 Tflop/s of f16, 1.2 TB/s of memory, three links of 30 GB/s to the
/// others of its four, 100 Gb/s Ethernet. Atlas 800 (model 9000) white paper: two groups of four to a node, joined by
/// PCIe 4.0; 32 GB. f32 and f64 run in the vector unit; the f32 rate is what is left of f16's 128 lanes.
ClusterPreset ascend910a() {
  return {ascend({.name = "ascend910a",
                  .devices_per_node = 8,
                  .flops_per_second = {.f64 = 0, .f32 = 8 * tera, .bf16 = 0, .f16 = 256 * tera},
                  .memory_bytes_per_second = 1200 * giga,
                  .memory_bytes = 32 * gibibyte,
                  .reserved_bytes = reserved_on_accelerators,
                  .kernel_seconds = 10e-6,
                  .links = {{"hccs", 4, 10e-6, 90 * giga, collective_start, 0, Wiring::mesh},
                            {"pcie", 8, 10e-6, 32 * giga, collective_start},
                            between_nodes({"roce", 20e-6, 12.5 * giga}, 8)}}),
          "Huawei Ascend 910 32 GB, 8 to a node in two groups (Atlas 800-9000); Hot Chips 31, Huawei's white "
          "paper"};
}

/// Huawei, Atlas 800T A2 training server, technical white paper (2023): 313 Tflop/s of f16 and bf16, 78 of f32, 64 GB
/// with 1.6 TB/s, every two of eight joined (392 GB/s both directions together), 200 Gb/s Ethernet for each. Atlas 900 A2
/// PoDc: the same boards with 376 Tflop/s of f16 and 94 of f32.
ClusterPreset ascend910b(std::string name, double f16, double f32, std::string doc) {
  return {ascend({.name = std::move(name),
                  .devices_per_node = 8,
                  .flops_per_second = {.f64 = 0, .f32 = f32, .bf16 = f16, .f16 = f16},
                  .memory_bytes_per_second = 1600 * giga,
                  .memory_bytes = 64 * gibibyte,
                  .reserved_bytes = reserved_on_accelerators,
                  .kernel_seconds = 10e-6,
                  .links = {{"hccs", 8, 10e-6, 196 * giga, collective_start, 0, Wiring::mesh},
                            between_nodes({"roce", 20e-6, 25 * giga}, 8)}}),
          std::move(doc)};
}

/// Huawei, Serving large language models on CloudMatrix384 (2025): Ascend 910C has two dies, each a device of 376 Tflop/s of f16
/// and bf16, 64 GB with 1.6 TB/s; 16 dies to a node, 768 joined by the unified bus, 196 GB/s a die and direction; 200 Gb/s of
/// RoCE for each die.
ClusterPreset ascend910c() {
  return {ascend({.name = "ascend910c",
                  .devices_per_node = 16,
                  .flops_per_second = {.f64 = 0, .f32 = 94 * tera, .bf16 = 376 * tera, .f16 = 376 * tera},
                  .memory_bytes_per_second = 1600 * giga,
                  .memory_bytes = 64 * gibibyte,
                  .reserved_bytes = reserved_on_accelerators,
                  .kernel_seconds = 10e-6,
                  .links = {{"unified_bus", 768, 10e-6, 196 * giga, collective_start},
                            between_nodes({"roce", 20e-6, 25 * giga}, 768)}}),
          "a die of Huawei Ascend 910C, 64 GB, 16 to a node and 768 to a CloudMatrix384; Huawei's paper"};
}

}  // namespace

std::span<const ClusterPreset> cluster_presets() {
  static const std::vector<ClusterPreset> presets{
      cpu(),
      v100("v100-32g", 32, false, "NVIDIA V100 SXM2 32 GB, 8 to a node (DGX-1); NVIDIA's data sheets"),
      v100("v100-16g", 16, false, "NVIDIA V100 SXM2 16 GB, 8 to a node (DGX-1); NVIDIA's data sheets"),
      v100("jeanzay-v100-32g", 32, true, "NVIDIA V100 SXM2 32 GB, 4 and 4 Omni-Path cards to a node; IDRIS"),
      v100("jeanzay-v100-16g", 16, true, "NVIDIA V100 SXM2 16 GB, 4 and 4 Omni-Path cards to a node; IDRIS"),
      a100("a100-80g", 80, 2039 * giga, {.bytes_per_second = 25 * giga}, 2 * tera,
           "NVIDIA A100 SXM4 80 GB, 8 to a node (DGX A100); NVIDIA's data sheets"),
      a100("a100-40g", 40, 1555 * giga, {.bytes_per_second = 25 * giga}, tera,
           "NVIDIA A100 SXM4 40 GB, 8 to a node (DGX A100); NVIDIA's data sheets"),
      a100("jeanzay-a100-80g", 80, 2039 * giga, {"omnipath", 15e-6, 6.25 * giga}, 0.512 * tera,
           "NVIDIA A100 SXM4 80 GB, 8 and 4 Omni-Path cards to a node; IDRIS"),
      hopper("h100", 80, 3350 * giga, 0.58,
             "NVIDIA H100 SXM 80 GB, 8 to a node (DGX H100); NVIDIA's data sheet"),
      hopper("h100-96g", 96, 2400 * giga, 0.52,
             "NVIDIA H100 96 GB of HBM2e, 500 W, 8 to a node (Grand Teton); as torchtitan's report says"),
      hopper("h200", 141, 4800 * giga, 0.58, "NVIDIA H200 SXM 141 GB, 8 to a node; NVIDIA's data sheet"),
      hopper("h800", 80, 3350 * giga, 0.58, "NVIDIA H800 SXM 80 GB, 8 to a node; NVIDIA's data sheet",
             {.f64 = 1 * tera, .f32 = 67 * tera, .bf16 = 989.4 * tera, .f16 = 989.4 * tera}, 200 * giga),
      hopper("h20", 96, 4000 * giga, 0.85, "NVIDIA H20 SXM 96 GB, 8 to a node; NVIDIA's data sheet",
             {.f64 = 1 * tera, .f32 = 44 * tera, .bf16 = 148 * tera, .f16 = 148 * tera}),
      blackwell("b200", 180, 7700 * giga, 2250 * tera, 37 * tera, false, 50 * giga,
                "NVIDIA B200 SXM 180 GB, 8 to a node (DGX B200); NVIDIA's data sheet"),
      blackwell("b300", 270, 7700 * giga, 2250 * tera, 1.2 * tera, false, 100 * giga,
                "NVIDIA B300 SXM 270 GB, 8 to a node (DGX B300); NVIDIA's data sheet"),
      blackwell("gb200", 186, 8000 * giga, 2450 * tera, 40 * tera, true, 50 * giga,
                "NVIDIA GB200 186 GB, 4 to a node, 72 joined by NVLink (NVL72); NVIDIA's data sheet"),
      blackwell("gb300", 279, 8000 * giga, 2450 * tera, 1.3 * tera, true, 100 * giga,
                "NVIDIA GB300 279 GB, 4 to a node, 72 joined by NVLink (NVL72); NVIDIA's data sheet"),
      gh200(),
      ada("l4", 300 * giga, {.f64 = 0.5 * tera, .f32 = 30.3 * tera, .bf16 = 121 * tera, .f16 = 121 * tera},
          6 * giga, "NVIDIA L4 24 GB, 8 to a node, PCIe; NVIDIA's data sheet"),
      ada("rtx4090", 1008 * giga,
          {.f64 = 1.3 * tera, .f32 = 82.6 * tera, .bf16 = 165 * tera, .f16 = 165 * tera}, 12 * giga,
          "NVIDIA GeForce RTX 4090 24 GB, 8 to a node, PCIe; NVIDIA's Ada architecture"),
      ascend910a(),
      ascend910b("ascend910b", 313 * tera, 78 * tera,
                 "Huawei Ascend 910B 64 GB, 8 to a node (Atlas 800T A2); Huawei's white paper"),
      ascend910b("ascend910b-podc", 376 * tera, 94 * tera,
                 "Huawei Ascend 910B 64 GB, 8 to a node (Atlas 900 A2 PoDc); Huawei's white paper"),
      ascend910c()};
  return presets;
}

}  // namespace shardwright
