// What is written is what is read: of presets, and of clusters with any figures.
#include "shardwright/cost/cluster_file.h"

#include <gtest/gtest.h>

#include "shardwright/base/random.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// As it is read from its own text.
Cluster again(const Cluster& cluster) {
  Cluster out = parse_cluster(to_text(cluster), "test");
  out.name = cluster.name;
  return out;
}

TEST(ClusterFile, is_read_back_as_it_was_written) {
  for (const ClusterPreset& preset : cluster_presets())
    for (const char* size : {"1", "5", "8", "3x8", "4096"}) {
      const Cluster cluster = cluster_called(fmt::format("{}:{}", preset.cluster.name, size));
      EXPECT_EQ(again(cluster), cluster) << to_text(cluster);
    }
}

TEST(ClusterFile, is_read_back_whatever_the_figures_are) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomStream stream(seed, "cluster");
    std::uint64_t next = 0;
    const auto below = [&](std::int64_t n) { return stream.below(next++, n); };
    const auto share = [&] { return static_cast<double>(1 + below(1 << 20)) / (1 << 20); };
    const auto quantity = [&] { return share() * std::pow(10.0, static_cast<double>(below(24)) - 9); };
    const int per_node = 1 << below(5), nodes = 1 + static_cast<int>(below(1000));
    Cluster c{.name = "drawn", .nodes = nodes, .devices_per_node = per_node};
    c.flops_per_second = {.f64 = below(2) ? quantity() : 0, .f32 = quantity(), .bf16 = quantity()};
    c.memory_bytes_per_second = quantity();
    for (std::int64_t left = below(5), bytes = 1 + below(1 << 20); left > 0;
         --left, bytes += 1 + below(1LL << 30))
      c.caches.push_back({bytes, quantity()});
    c.memory_bytes = 1 + below(1LL << 40);
    c.reserved_bytes = below(c.memory_bytes);
    c.kernel_seconds = quantity();
    for (Efficiency& e : c.efficiency) e = {share(), quantity()};
    for (int joined = per_node > 1 ? 2 : 1; joined <= per_node; joined *= 2)
      c.links.push_back({below(2) ? "wire" : "a: {b} # 'c'", joined, quantity(), quantity(), quantity(),
                         below(2) ? quantity() : 0, static_cast<Wiring>(below(3))});
    c.links.push_back({"between", c.devices(), quantity(), quantity()});
    if (below(2)) c.rows = {.line_bytes = below(64), .product = share(), .batched = share()};
    c.link_efficiency = share();
    c.overlap = share();
    if (below(2)) c.price_per_hour = quantity();
    if (below(2)) c.memory_margin = static_cast<double>(below(1 << 20)) / (1 << 20);
    EXPECT_EQ(again(c), c) << to_text(c);
  }
}

TEST(ClusterFile, is_written_as_people_write_it) {
  EXPECT_EQ(to_text(cluster_called("a100-80g:2x8")), R"(nodes: 2
devices_per_node: 8
memory: 80GiB
reserved: 2GB
memory_bandwidth: 2039GB/s
flops: {f64: 9.7T, f32: 19.5T, bf16: 312T, fp16: 312T}
kernel_overhead: 5us
efficiency:
  contraction: {best: 0.7, half: 20us}
  convolution: {best: 0.5, half: 20us}
  streaming: {best: 0.75, half: 15us}
  chain: {best: 0.7, half: 20us}
  loss: {best: 0.2, half: 15us}
links:
  - {kind: nvlink, devices: 8, latency: 5us, bandwidth: 300GB/s, start: 40us, wiring: switched}
  - {kind: infiniband, devices: 16, latency: 10us, bandwidth: 25GB/s, start: 40us, member: 7.5us, wiring: switched}
host:
  bandwidth: 25GB/s
  latency: 10us
  memory: 2TB
  flops: {f64: 500G, f32: 1T, bf16: 1T, fp16: 500G}
  memory_bandwidth: 200GB/s
link_efficiency: 0.75
overlap: 0.9
)");
  EXPECT_EQ(error_of([] { parse_cluster("nodes: 2\n", "two.yaml"); }),
            "two.yaml: devices_per_node is missing");
}

TEST(ClusterFile, says_what_plans_keep_free) {
  const std::string file = to_text(cluster_called("a100-80g:2"));
  const auto with = [&](const std::string& line) { return parse_cluster(file + "\n" + line, "f.yaml"); };
  EXPECT_EQ(with("").margin(), usual_margin);
  EXPECT_EQ(with("margin: 2.5%").margin(), 0.025);
  EXPECT_EQ(with("margin: 0.25").margin(), 0.25);
  EXPECT_EQ(with("margin: 0").margin(), 0);
  EXPECT_EQ(cluster_called("cpu:2").margin(), 0);
  for (const char* wrong : {"100%", "-1%", "6GB", "x", "nan", "1"})
    EXPECT_THROW(with(fmt::format("margin: {}", wrong)), Error) << wrong;
}

TEST(Cluster, with_other_numbers_of_devices_keeps_its_margin) {
  Cluster cluster = cluster_called("a100-80g:8");
  cluster.memory_margin = 0.03;
  EXPECT_TRUE(is_preset(cluster));
  for (const int devices : {1, 8, 64}) EXPECT_EQ(resized(cluster, devices).margin(), 0.03) << devices;
  EXPECT_EQ(cluster.part(0, 4).margin(), 0.03);
}

TEST(Cluster, with_other_numbers_of_devices_fills_nodes_as_its_own) {
  const auto name = [](const char* cluster, int devices) {
    return resized(cluster_called(cluster), devices).name;
  };
  EXPECT_EQ(name("a100-80g:64", 16), "a100-80g:16");
  EXPECT_EQ(name("a100-80g:8", 16), "a100-80g:16");
  EXPECT_EQ(name("a100-80g:4x4", 8), "a100-80g:2x4");
  EXPECT_EQ(name("a100-80g:4x4", 2), "a100-80g:2");
  Cluster own = cluster_called("a100-80g:2x8");
  own.name = "own.yaml";
  own.price_per_hour = 2;
  EXPECT_EQ(resized(own, 4), own.part(0, 4));
  EXPECT_EQ(resized(own, 4).price_per_hour, 2);
  EXPECT_EQ(error_of([&] { resized(own, 32); }), "32 devices from 0 on: cluster own.yaml has 16");
}

/// 16 devices at 3 an hour each, for half an hour and for a second.
TEST(Cluster, prices_a_step_by_the_hour_of_a_device) {
  Cluster cluster = cluster_called("a100-80g:2x8");
  EXPECT_FALSE(cluster.price_of(1800));
  cluster.price_per_hour = 3;
  EXPECT_DOUBLE_EQ(*cluster.price_of(1800), 24);
  EXPECT_DOUBLE_EQ(*cluster.price_of(1), 48.0 / 3600);
}

TEST(Cluster, is_a_preset_only_with_its_figures) {
  Cluster cluster = cluster_called("h100:16");
  EXPECT_TRUE(is_preset(cluster));
  cluster.memory_bytes /= 2;
  EXPECT_FALSE(is_preset(cluster));
  EXPECT_FALSE(is_preset(cluster_called("h100:16").part(0, 4)));
  EXPECT_FALSE(is_preset({.name = "gone.yaml"}));
}

}  // namespace
}  // namespace shardwright
