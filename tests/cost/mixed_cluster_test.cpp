#include "shardwright/cost/mixed_cluster.h"

#include <gtest/gtest.h>

#include "shardwright/cost/cluster_file.h"
#include "tests/support/message_of.h"

namespace shardwright {
namespace {

const std::string mixed = "h100:8+a100-40g:2x4";

TEST(MixedCluster, has_what_the_slowest_of_its_devices_have) {
  const Cluster c = cluster_called(mixed), fast = cluster_called("h100:8"),
                slow = cluster_called("a100-40g:2x4");
  EXPECT_EQ(c.devices(), 16);
  ASSERT_EQ(c.kinds.size(), 2U);
  EXPECT_EQ(c.flops_per_second, slow.flops_per_second);
  EXPECT_EQ(c.memory_bytes, slow.memory_bytes);
  EXPECT_LE(c.memory_bytes_per_second, fast.memory_bytes_per_second);
  EXPECT_EQ(c.links.back().devices, 16);
  EXPECT_EQ(c.links.back().bytes_per_second, slow.links.back().bytes_per_second);
}

TEST(MixedCluster, parts_of_one_kind_are_as_of_that_alone) {
  const Cluster c = cluster_called(mixed), fast = cluster_called("h100:8");
  EXPECT_EQ(c.part(0, 4), fast.part(0, 4));
  EXPECT_EQ(c.part(8, 4), cluster_called("a100-40g:2x4").part(0, 4));
  EXPECT_EQ(kind_of(c, 4, 4), 0U);
  EXPECT_EQ(kind_of(c, 8, 8), 1U);
  EXPECT_EQ(kind_of(c, 6, 4), std::nullopt);
  const Cluster both = c.part(6, 4);
  EXPECT_EQ(both.devices(), 4);
  ASSERT_EQ(both.kinds.size(), 2U);
  EXPECT_EQ(both.kinds[0].devices(), 2);
  EXPECT_EQ(both.flops_per_second, c.flops_per_second);
  EXPECT_EQ(fastest_part(c, 8).flops_per_second, fast.flops_per_second);
  EXPECT_EQ(fastest_part(c, 16).flops_per_second, c.flops_per_second);
  EXPECT_EQ(resized(c, 8), fast.part(0, 8));
}

TEST(MixedCluster, keeps_the_margin_that_is_asked_for) {
  Cluster c = cluster_called(mixed);
  c.memory_margin = 0.1;
  EXPECT_EQ(c.part(0, 8).memory_margin, 0.1);
  EXPECT_EQ(c.part(0, 16).memory_margin, 0.1);
}

TEST(MixedCluster, is_written_and_read_again) {
  Cluster c = cluster_called("h100:8+l4:4");
  const std::string text = to_text(c);
  const Cluster again = parse_cluster(text, "again");
  EXPECT_EQ(to_text(again), text);
  EXPECT_EQ(again.part(0, 8).links, c.part(0, 8).links);
  EXPECT_EQ(again.part(8, 4).flops_per_second, c.part(8, 4).flops_per_second);
}

const std::string file = R"(
nodes: 2
devices_per_node: 8
memory: 80GiB
memory_bandwidth: 2039GB/s
flops: {f32: 19.5T, bf16: 312T}
links:
  - {kind: nvlink, devices: 8, latency: 5us, bandwidth: 300GB/s}
  - {kind: infiniband, latency: 10us, bandwidth: 25GB/s}
)";

TEST(MixedCluster, is_read_from_a_file) {
  const Cluster c = parse_cluster(
      file +
          "kinds: [{devices: 8, device: h100}, {devices: 8, memory: 40GiB, flops: {f32: 10T, bf16: 150T}}]\n",
      "x");
  EXPECT_EQ(c.flops_per_second.bf16, 150e12);
  EXPECT_EQ(c.part(0, 8).flops_per_second, cluster_called("h100:8").flops_per_second);
  EXPECT_EQ(c.part(0, 8).links.front().bytes_per_second, 300e9);
  EXPECT_EQ(c.part(8, 8).memory_bytes, std::int64_t{40} << 30);
  EXPECT_EQ(c.memory_bytes, std::int64_t{40} << 30);
}

TEST(MixedCluster, says_what_is_wrong) {
  const auto of_file = [](const std::string& kinds) {
    return testing::message_of([&] { parse_cluster(file + "kinds: " + kinds + "\n", "x.yaml"); });
  };
  EXPECT_EQ(of_file("[{devices: 8}]"), "x.yaml: kinds: they are of 8 of the 16 devices");
  EXPECT_EQ(of_file("[{devices: 8}, {devices: 9}]"),
            "x.yaml: kinds[1].devices: there are 8 devices left of 16");
  EXPECT_EQ(of_file("[]"), "x.yaml: kinds should be a list of at least one kind");
  EXPECT_TRUE(of_file("[{devices: 16, device: h10}]")
                  .starts_with("x.yaml: kinds[0].device: cluster 'h10:1' is unknown"));
  EXPECT_TRUE(testing::message_of([] {
                cluster_called("h100:8+b:8");
              }).starts_with("cluster 'h100:8+b:8': cluster 'b:8' is unknown"));
}

}  // namespace
}  // namespace shardwright
