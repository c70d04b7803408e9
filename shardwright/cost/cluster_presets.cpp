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
           .efficiency =
               {{{0.87, 0.3e-6}, {0.97, 0.3e-6}, {1, 0.2e-6}, {0.45, 0.3e-6}, {0.97, 0.3e-6}, {1, 0.2e-6}}},
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

/// What is between the nodes of a machine, for each device: its share of the cards of a node.
struct Network {
  std::string kind = "infiniband";
  double latency_seconds = 10e-6;
  double bytes_per_second = 0;
};

/// NVIDIA V100 Tensor Core GPU datasheet (2020), SXM2. No unit for bf16. DGX-1 with V100: NVLink 300 GB/s both directions
/// together, four 100 Gb/s adapters for eight devices. Jean Zay (IDRIS): four devices and four 100 Gb/s Omni-Path cards to
/// a node, every two devices joined.
ClusterPreset v100(std::string name, std::int64_t gigabytes, bool is_jean_zay, std::string doc) {
  const int per_node = is_jean_zay ? 4 : 8;
  return {{.name = std::move(name),
           .devices_per_node = per_node,
           .flops_per_second = {.f64 = 7.8 * tera, .f32 = 15.7 * tera, .bf16 = 0, .f16 = 125 * tera},
           .memory_bytes_per_second = 900 * giga,
           .memory_bytes = gigabytes * gibibyte,
           .reserved_bytes = reserved_on_accelerators,
           .kernel_seconds = 5e-6,
           .links = {{"nvlink", per_node, 10e-6, 150 * giga, collective_start,
                      is_jean_zay ? Wiring::mesh : Wiring::cube},
                     {is_jean_zay ? "omnipath" : "infiniband", per_node, 15e-6,
                      (is_jean_zay ? 12.5 : 6.25) * giga, collective_start}}},
          std::move(doc)};
}

/// NVIDIA A100 datasheets (2021), SXM4, without sparsity; f32 outside tensor cores, as frameworks have it by default.
/// NVLink 600 GB/s both directions together. DGX A100: a 200 Gb/s adapter for each device.
ClusterPreset a100(std::string name, std::int64_t gigabytes, double memory_bytes_per_second,
                   const Network& network, std::string doc) {
  return {{.name = std::move(name),
           .devices_per_node = 8,
           .flops_per_second = {.f64 = 9.7 * tera, .f32 = 19.5 * tera, .bf16 = 312 * tera, .f16 = 312 * tera},
           .memory_bytes_per_second = memory_bytes_per_second,
           .memory_bytes = gigabytes * gibibyte,
           .reserved_bytes = reserved_on_accelerators,
           .kernel_seconds = 5e-6,
           .links = {{"nvlink", 8, 5e-6, 300 * giga, collective_start},
                     {network.kind, 8, network.latency_seconds, network.bytes_per_second, collective_start}}},
          std::move(doc)};
}

/// NVIDIA H100 and H200 datasheets (2023), SXM, without sparsity. DGX H100: NVLink 900 GB/s both directions together, a
/// 400 Gb/s adapter for each device. Power holds their clocks below those that the peak is given at: `products` of it is
/// what large products reach, as in published runs (docs/cost-model.md).
/// Attention: kernels that do without Hopper's own instructions reach 335 Tflop/s where they reach 225 of 312 on an A100
/// (Dao, FlashAttention-2, 2023), so 0.47 of the share that they have there. PCIe 5.0 to the host.
ClusterPreset hopper(std::string name, std::int64_t gigabytes, double memory_bytes_per_second,
                     double products, std::string doc) {
  return {
      {.name = std::move(name),
       .devices_per_node = 8,
       .flops_per_second = {.f64 = 34 * tera, .f32 = 67 * tera, .bf16 = 989.4 * tera, .f16 = 989.4 * tera},
       .memory_bytes_per_second = memory_bytes_per_second,
       .memory_bytes = gigabytes * gibibyte,
       .reserved_bytes = reserved_on_accelerators,
       .kernel_seconds = 5e-6,
       .efficiency =
           {{{products, 20e-6}, {0.5, 20e-6}, {0.75, 15e-6}, {0.33, 20e-6}, {0.5, 20e-6}, {0.75, 15e-6}}},
       .links = {{"nvlink", 8, 5e-6, 450 * giga, collective_start},
                 {"infiniband", 8, 10e-6, 50 * giga, collective_start}},
       .host = {.bytes_per_second = 55 * giga}},
      std::move(doc)};
}

/// Huawei, Ascend 910 at Hot Chips 31 (2019): 256 Tflop/s of f16, 1.2 TB/s of memory, three links of 30 GB/s to the
/// others of its four, 100 Gb/s Ethernet. Atlas 800 (model 9000) white paper: two groups of four to a node, joined by
/// PCIe 4.0; 32 GB. f32 and f64 run in the vector unit; the f32 rate is what is left of f16's 128 lanes.
ClusterPreset ascend910a() {
  return {{.name = "ascend910a",
           .devices_per_node = 8,
           .flops_per_second = {.f64 = 0, .f32 = 8 * tera, .bf16 = 0, .f16 = 256 * tera},
           .memory_bytes_per_second = 1200 * giga,
           .memory_bytes = 32 * gibibyte,
           .reserved_bytes = reserved_on_accelerators,
           .kernel_seconds = 10e-6,
           .links = {{"hccs", 4, 10e-6, 90 * giga, collective_start, Wiring::mesh},
                     {"pcie", 8, 10e-6, 32 * giga, collective_start},
                     {"roce", 8, 20e-6, 12.5 * giga, collective_start}}},
          "Huawei Ascend 910 32 GB, 8 to a node in two groups (Atlas 800-9000); Hot Chips 31, Huawei's white "
          "paper"};
}

/// Huawei, Atlas 800T A2 training server, technical white paper (2023): 313 Tflop/s of f16 and bf16, 78 of f32, 64 GB
/// with 1.6 TB/s, every two of eight joined (392 GB/s both directions together), 200 Gb/s Ethernet for each. Atlas 900 A2
/// PoDc: the same boards with 376 Tflop/s of f16 and 94 of f32.
ClusterPreset ascend910b(std::string name, double f16, double f32, std::string doc) {
  return {{.name = std::move(name),
           .devices_per_node = 8,
           .flops_per_second = {.f64 = 0, .f32 = f32, .bf16 = f16, .f16 = f16},
           .memory_bytes_per_second = 1600 * giga,
           .memory_bytes = 64 * gibibyte,
           .reserved_bytes = reserved_on_accelerators,
           .kernel_seconds = 10e-6,
           .links = {{"hccs", 8, 10e-6, 196 * giga, collective_start, Wiring::mesh},
                     {"roce", 8, 20e-6, 25 * giga, collective_start}}},
          std::move(doc)};
}

}  // namespace

std::span<const ClusterPreset> cluster_presets() {
  static const std::vector<ClusterPreset> presets{
      cpu(),
      v100("v100-32g", 32, false, "NVIDIA V100 SXM2 32 GB, 8 to a node (DGX-1); NVIDIA's data sheets"),
      v100("v100-16g", 16, false, "NVIDIA V100 SXM2 16 GB, 8 to a node (DGX-1); NVIDIA's data sheets"),
      v100("jeanzay-v100-32g", 32, true, "NVIDIA V100 SXM2 32 GB, 4 and 4 Omni-Path cards to a node; IDRIS"),
      v100("jeanzay-v100-16g", 16, true, "NVIDIA V100 SXM2 16 GB, 4 and 4 Omni-Path cards to a node; IDRIS"),
      a100("a100-80g", 80, 2039 * giga, {.bytes_per_second = 25 * giga},
           "NVIDIA A100 SXM4 80 GB, 8 to a node (DGX A100); NVIDIA's data sheets"),
      a100("a100-40g", 40, 1555 * giga, {.bytes_per_second = 25 * giga},
           "NVIDIA A100 SXM4 40 GB, 8 to a node (DGX A100); NVIDIA's data sheets"),
      a100("jeanzay-a100-80g", 80, 2039 * giga, {"omnipath", 15e-6, 6.25 * giga},
           "NVIDIA A100 SXM4 80 GB, 8 and 4 Omni-Path cards to a node; IDRIS"),
      hopper("h100", 80, 3350 * giga, 0.6,
             "NVIDIA H100 SXM 80 GB, 8 to a node (DGX H100); NVIDIA's data sheet"),
      hopper("h100-96g", 96, 2400 * giga, 0.52,
             "NVIDIA H100 96 GB of HBM2e, 500 W, 8 to a node (Grand Teton); as torchtitan's report says"),
      hopper("h200", 141, 4800 * giga, 0.6, "NVIDIA H200 SXM 141 GB, 8 to a node; NVIDIA's data sheet"),
      ascend910a(),
      ascend910b("ascend910b", 313 * tera, 78 * tera,
                 "Huawei Ascend 910B 64 GB, 8 to a node (Atlas 800T A2); Huawei's white paper"),
      ascend910b("ascend910b-podc", 376 * tera, 94 * tera,
                 "Huawei Ascend 910B 64 GB, 8 to a node (Atlas 900 A2 PoDc); Huawei's white paper")};
  return presets;
}

}  // namespace shardwright
