#include "shardwright/cost/mixed_cluster.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

std::int64_t left_of(const Cluster& c) { return c.memory_bytes - c.reserved_bytes; }

/// The mean over all devices of what `of` says of a kind.
template <class F>
double mean_of(const std::vector<Cluster>& kinds, F of) {
  double sum = 0;
  int devices = 0;
  for (const Cluster& kind : kinds) sum += kind.devices() * of(kind), devices += kind.devices();
  return sum / devices;
}

/// What the mean device costs, if it is known of all.
std::optional<double> mean_price(const std::vector<Cluster>& kinds) {
  for (const Cluster& kind : kinds)
    if (!kind.price_per_hour) return std::nullopt;
  return mean_of(kinds, [](const Cluster& kind) { return *kind.price_per_hour; });
}

/// Of each rate of both the one that `pick` takes.
template <class Pick>
void set_rates(Cluster& to, const Cluster& other, Pick pick) {
  const PeakFlops a = to.flops_per_second, b = other.flops_per_second;
  const auto of = [&](DType type) { return pick(a.of(type), b.of(type)); };
  if (a != b)
    to.flops_per_second = {
        .f64 = of(DType::f64), .f32 = of(DType::f32), .bf16 = of(DType::bf16), .f16 = of(DType::f16)};
  to.memory_bytes_per_second = pick(to.memory_bytes_per_second, other.memory_bytes_per_second);
}

}  // namespace

LinkLevel slower_of(LinkLevel a, const LinkLevel& b) {
  if (b.bytes_per_second < a.bytes_per_second) a.kind = b.kind, a.bytes_per_second = b.bytes_per_second;
  a.latency_seconds = std::max(a.latency_seconds, b.latency_seconds);
  a.start_seconds = std::max(a.start_seconds, b.start_seconds);
  a.member_seconds = std::max(a.member_seconds, b.member_seconds);
  if (a.wiring != b.wiring) a.wiring = Wiring::switched;
  return a;
}

double speed_of(const Cluster& cluster) {
  return cluster.flops_per_second.of(DType::bf16) * cluster.efficiency_of(WorkKind::contraction).best;
}

void set_devices(Cluster& to, const Cluster& from) {
  to.flops_per_second = from.flops_per_second;
  to.memory_bytes_per_second = from.memory_bytes_per_second;
  to.caches = from.caches;
  to.memory_bytes = from.memory_bytes;
  to.reserved_bytes = from.reserved_bytes;
  to.kernel_seconds = from.kernel_seconds;
  to.efficiency = from.efficiency;
  to.rows = from.rows;
  to.price_per_hour = from.price_per_hour;
}

std::vector<Cluster> part_of_kinds(const Cluster& cluster, int first, int count) {
  std::vector<Cluster> out;
  int begin = 0;
  for (const Cluster& kind : cluster.kinds) {
    const int from = std::max(first, begin), end = std::min(first + count, begin + kind.devices());
    if (from < end) {
      out.push_back(kind.part(from - begin, end - from));
      out.back().memory_margin = cluster.memory_margin;
      out.back().routing_imbalance = cluster.routing_imbalance;
    }
    begin += kind.devices();
  }
  return out;
}

void set_kinds(Cluster& cluster, std::vector<Cluster> kinds) {
  cluster.kinds = std::move(kinds);
  if (cluster.kinds.empty()) return;
  set_devices(cluster, *std::ranges::min_element(cluster.kinds, {}, speed_of));
  const Cluster& least = *std::ranges::min_element(cluster.kinds, {}, left_of);
  cluster.memory_bytes = least.memory_bytes, cluster.reserved_bytes = least.reserved_bytes;
  for (const Cluster& kind : cluster.kinds) {
    set_rates(cluster, kind, [](double a, double b) { return std::min(a, b); });
    cluster.kernel_seconds = std::max(cluster.kernel_seconds, kind.kernel_seconds);
  }
  cluster.price_per_hour = mean_price(cluster.kinds);
}

Cluster joined(std::string name, std::vector<Cluster> kinds, LinkLevel between) {
  std::int64_t all = 0;
  int per_node = 0;
  for (const Cluster& kind : kinds)
    all += kind.devices(), per_node = std::gcd(per_node, kind.devices_per_node);
  if (all > most_devices) throw error("cluster '{}' has more than {} devices", name, most_devices);
  Cluster out = kinds.front();
  out.name = std::move(name);
  out.devices_per_node = per_node;
  out.nodes = static_cast<int>(all) / per_node;
  out.links.clear();
  for (std::size_t level = 0; level < kinds.front().links.size(); ++level) {  // those that all have
    const int block = kinds.front().links[level].devices;
    const auto has_it = [&](const Cluster& kind) {
      return level < kind.links.size() && kind.links[level].devices == block;
    };
    if (block >= all || !std::ranges::all_of(kinds, has_it)) break;
    out.links.push_back(kinds.front().links[level]);
    for (const Cluster& kind : kinds) out.links.back() = slower_of(out.links.back(), kind.links[level]);
  }
  between.devices = static_cast<int>(all);
  out.links.push_back(between);
  set_kinds(out, std::move(kinds));
  return out;
}

Cluster of_mean_device(Cluster cluster) {
  const std::vector<Cluster> kinds = std::exchange(cluster.kinds, {});
  if (kinds.empty()) return cluster;
  const std::int64_t memory = cluster.memory_bytes, reserved = cluster.reserved_bytes;
  const Cluster& most = *std::ranges::max_element(
      kinds, {}, [](const Cluster& kind) { return kind.devices() * speed_of(kind); });
  set_devices(cluster, most);
  cluster.memory_bytes = memory, cluster.reserved_bytes = reserved;
  // Times the share of the peak that they reach, of which `most` has its own.
  const auto reached = [&](WorkKind work, auto rate) {
    const auto of = [&](const Cluster& kind) { return rate(kind) * kind.efficiency_of(work).best; };
    return mean_of(kinds, of) / most.efficiency_of(work).best;
  };
  const auto flops = [&](DType type) {
    return reached(WorkKind::contraction,
                   [&](const Cluster& kind) { return kind.flops_per_second.of(type); });
  };
  cluster.flops_per_second = {.f64 = flops(DType::f64),
                              .f32 = flops(DType::f32),
                              .bf16 = flops(DType::bf16),
                              .f16 = flops(DType::f16)};
  cluster.memory_bytes_per_second =
      reached(WorkKind::streaming, [](const Cluster& kind) { return kind.memory_bytes_per_second; });
  cluster.kernel_seconds = mean_of(kinds, [](const Cluster& kind) { return kind.kernel_seconds; });
  cluster.price_per_hour = mean_price(kinds);
  return cluster;
}

Cluster fastest_part(const Cluster& cluster, int count) {
  const Cluster* fastest = nullptr;
  int begin = 0, first = 0;
  for (const Cluster& kind : cluster.kinds) {
    if (kind.devices() >= count && (!fastest || speed_of(kind) > speed_of(*fastest)))
      fastest = &kind, first = begin;
    begin += kind.devices();
  }
  Cluster out = cluster.part(first, count);
  for (const Cluster& kind : cluster.kinds) {
    if (!fastest || kind.devices() < count) continue;
    set_rates(out, kind, [](double a, double b) { return std::max(a, b); });
    out.kernel_seconds = std::min(out.kernel_seconds, kind.kernel_seconds);
  }
  return out;
}

Cluster fastest_stage_by_shares(const Cluster& cluster, int count) {
  Cluster out = fastest_part(cluster, count);
  for (int first = 0; first + count <= cluster.devices(); first += count) {
    if (kind_of(cluster, first, count)) continue;
    const Cluster mean = of_mean_device(cluster.part(first, count));
    if (speed_of(mean) > speed_of(out)) {
      const std::vector<LinkLevel> links = out.links;
      const Cluster before = std::exchange(out, mean);
      out.links = links;
      set_rates(out, before, [](double a, double b) { return std::max(a, b); });
    } else {
      set_rates(out, mean, [](double a, double b) { return std::max(a, b); });
    }
    out.kernel_seconds = std::min(out.kernel_seconds, mean.kernel_seconds);
  }
  return out;
}

std::optional<std::size_t> kind_of(const Cluster& cluster, int first, int count) {
  int begin = 0;
  for (std::size_t k = 0; k < cluster.kinds.size(); ++k) {
    const int end = begin + cluster.kinds[k].devices();
    if (first >= begin && first + count <= end) return k;
    begin = end;
  }
  return std::nullopt;
}

}  // namespace shardwright
