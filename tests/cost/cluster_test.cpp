#include "shardwright/cost/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardwright/cost/cluster_file.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

Mesh mesh(std::string_view text) {
  Scanner in(text);
  return parse_mesh(in);
}

std::vector<double> gigabytes_per_second(const Cluster& cluster, std::string_view text) {
  std::vector<double> out;
  for (const LinkCost& link : mesh_cost(cluster, mesh(text)).axes)
    out.push_back(std::round(10e-9 / link.seconds_per_byte / cluster.link_efficiency) / 10);
  return out;
}

using Rates = std::vector<double>;

TEST(Cluster, fills_nodes_evenly) {
  struct Case {
    const char* name;
    int nodes, per_node;
  };
  for (const Case& c : {Case{"a100-80g:1", 1, 1},
                        {"a100-80g:8", 1, 8},
                        {"a100-80g:16", 2, 8},
                        {"a100-80g:12", 2, 6},
                        {"a100-80g:13", 13, 1},
                        {"a100-80g:4x2", 4, 2},
                        {"h100:16384", 2048, 8},
                        {"cpu:96", 1, 96}}) {
    SCOPED_TRACE(c.name);
    const Cluster cluster = cluster_called(c.name);
    EXPECT_EQ(cluster.nodes, c.nodes);
    EXPECT_EQ(cluster.devices_per_node, c.per_node);
    EXPECT_EQ(cluster.links.back().devices, cluster.devices());
  }
}

TEST(Cluster, is_cut_into_parts_whose_links_join_what_lies_together) {
  using Links = std::vector<std::pair<double, int>>;  // gigabytes per second, and devices of a block
  struct Case {
    const char* name;
    int first, count, nodes;
    Links links;
  };
  for (const Case& c : {Case{"a100-80g:3x8", 0, 8, 1, {{300, 8}}},
                        {"a100-80g:3x8", 16, 8, 1, {{300, 8}}},
                        {"a100-80g:3x8", 4, 4, 1, {{300, 4}}},
                        {"a100-80g:3x8", 6, 4, 2, {{300, 2}, {25, 4}}},  // a border in the middle
                        {"a100-80g:3x8", 5, 4, 4, {{25, 4}}},            // after 3 devices
                        {"a100-80g:3x8", 8, 16, 2, {{300, 8}, {25, 16}}},
                        {"a100-80g:3x8", 0, 12, 3, {{300, 4}, {25, 12}}},
                        {"a100-80g:3x8", 4, 20, 5, {{300, 4}, {25, 20}}},  // of 4, 8 and 8
                        {"a100-80g:3x8", 23, 1, 1, {{300, 1}}},
                        {"a100-80g:3x8", 0, 24, 3, {{300, 8}, {25, 24}}},
                        {"ascend910a:2x8", 0, 6, 1, {{30, 2}, {32, 6}}},  // 4 and 2 of two groups of a node
                        {"ascend910a:2x8", 4, 8, 2, {{90, 4}, {12.5, 8}}},
                        {"ascend910b:2x8", 4, 4, 1, {{84, 4}}},  // 3 of 7 wires
                        {"v100-32g:2x8", 0, 4, 1, {{100, 4}}},   // 2 of 3 dims
                        {"cpu:16", 3, 10, 1, {{20, 10}}}}) {
    SCOPED_TRACE(fmt::format("{} from {} on {}", c.name, c.first, c.count));
    const Cluster part = cluster_called(c.name).part(c.first, c.count);
    EXPECT_EQ(part.devices(), c.count);
    EXPECT_EQ(part.nodes, c.nodes);
    Links links;
    for (const LinkLevel& level : part.links)
      links.emplace_back(std::round(level.bytes_per_second / 1e8) / 10, level.devices);
    EXPECT_EQ(links, c.links);
  }
}

/// Whatever is cut: a block of a link's devices lies in one block of the whole cluster's link.
TEST(Cluster, parts_promise_no_link_that_the_whole_does_not_have) {
  for (const char* name : {"ascend910a:3x8", "a100-80g:4x6", "v100-32g:2x5"}) {
    const Cluster whole = cluster_called(name);
    for (int first = 0; first < whole.devices(); ++first)
      for (int count = 1; first + count <= whole.devices(); ++count) {
        const Cluster part = whole.part(first, count);
        ASSERT_EQ(part.links.back().devices, count);
        int within = 1;
        for (const LinkLevel& level : part.links) {
          ASSERT_EQ(level.devices % within, 0);
          within = level.devices;
          const auto same = std::ranges::find(whole.links, level.kind, &LinkLevel::kind);
          for (int d = 0; d < count; ++d)
            ASSERT_EQ((first + d) / same->devices, (first + d / within * within) / same->devices);
        }
      }
  }
  EXPECT_EQ(cluster_called("h100:16").part(0, 16), cluster_called("h100:16"));
  EXPECT_EQ(error_of([] { cluster_called("h100:16").part(8, 9); }),
            "9 devices from 8 on: cluster h100:16 has 16");
}

TEST(Cluster, gives_each_axis_the_link_that_its_ranks_share) {
  const Cluster two_nodes = cluster_called("a100-80g:2x8");
  EXPECT_EQ(gigabytes_per_second(two_nodes, "mesh [dp=2, tp=8]"), (Rates{25, 300}));
  EXPECT_EQ(gigabytes_per_second(two_nodes, "mesh [dp=4, sp=2, tp=2]"), (Rates{25, 300, 300}));
  EXPECT_EQ(gigabytes_per_second(two_nodes, "mesh [tp=16]"), (Rates{25}));
  // Blocks of 3 straddle nodes of 8.
  EXPECT_EQ(gigabytes_per_second(cluster_called("a100-80g:3x8"), "mesh [dp=8, tp=3]"), (Rates{25, 25}));
  EXPECT_EQ(gigabytes_per_second(cluster_called("ascend910a:2x8"), "mesh [dp=2, sp=2, tp=4]"),
            (Rates{12.5, 32, 90}));
}

TEST(Cluster, finds_the_levels_of_links_inside_an_axis) {
  const auto ranks = [](const char* cluster, std::string_view text) {
    std::vector<std::vector<int>> out;
    for (const auto& levels : mesh_cost(cluster_called(cluster), mesh(text)).levels) {
      out.emplace_back();
      for (const GroupLink& level : levels) out.back().push_back(level.ranks);
    }
    return out;
  };
  using Ranks = std::vector<std::vector<int>>;
  EXPECT_EQ(ranks("a100-80g:2x8", "mesh [dp=16]"), (Ranks{{2, 8}}));
  EXPECT_EQ(ranks("a100-80g:2x8", "mesh [dp=8, tp=2]"), (Ranks{{2, 4}, {2}}));
  EXPECT_EQ(ranks("a100-80g:2x8", "mesh [dp=2, tp=8]"), (Ranks{{2}, {8}}));
  EXPECT_EQ(ranks("ascend910a:2x8", "mesh [dp=16]"), (Ranks{{2, 2, 4}}));
  // Blocks of 3 straddle nodes of 8: only the link between nodes joins them all.
  EXPECT_EQ(ranks("a100-80g:3x8", "mesh [dp=8, tp=3]"), (Ranks{{8}, {3}}));
  EXPECT_EQ(ranks("a100-80g:2x8", "mesh [dp=16, one=1]"), (Ranks{{2, 8}, {1}}));
}

TEST(Cluster, runs_types_without_a_unit_at_the_rate_of_f32) {
  const Cluster v100 = cluster_called("v100-32g:8");
  EXPECT_EQ(v100.flops_per_second.of(DType::bf16), v100.flops_per_second.of(DType::f32));
  EXPECT_EQ(v100.flops_per_second.of(DType::f16), 125e12);
}

TEST(Cluster, is_read_from_a_file_as_it_is_from_a_preset) {
  const std::string path = scratch_folder() + "/two.yaml";
  write_bytes(path, R"(
nodes: 2
devices_per_node: 8
memory: 80GiB
reserved: 2000 MB
memory_bandwidth: 2039GB/s
flops: {f64: 9.7T, f32: 19.5T, bf16: 312T, fp16: 312e12}
kernel_overhead: 5us
links:
  - {kind: nvlink, devices: 8, latency: 5us, bandwidth: 300GB/s, start: 40us, wiring: switched}
  - {kind: infiniband, latency: 0.01ms, bandwidth: 25GB/s, start: 40us}
)");
  const Cluster file = cluster_called(path), preset = cluster_called("a100-80g:2x8");
  EXPECT_EQ(file.devices(), preset.devices());
  EXPECT_EQ(file.memory_bytes, preset.memory_bytes);
  EXPECT_EQ(file.reserved_bytes, preset.reserved_bytes);
  EXPECT_DOUBLE_EQ(file.memory_bytes_per_second, preset.memory_bytes_per_second);
  EXPECT_DOUBLE_EQ(file.kernel_seconds, preset.kernel_seconds);
  for (DType t : {DType::f64, DType::f32, DType::bf16, DType::f16})
    EXPECT_DOUBLE_EQ(file.flops_per_second.of(t), preset.flops_per_second.of(t));
  ASSERT_EQ(file.links.size(), preset.links.size());
  for (std::size_t i = 0; i < file.links.size(); ++i) {
    EXPECT_EQ(file.links[i].kind, preset.links[i].kind);
    EXPECT_EQ(file.links[i].devices, preset.links[i].devices);
    EXPECT_DOUBLE_EQ(file.links[i].latency_seconds, preset.links[i].latency_seconds);
    EXPECT_DOUBLE_EQ(file.links[i].bytes_per_second, preset.links[i].bytes_per_second);
    EXPECT_DOUBLE_EQ(file.links[i].start_seconds, preset.links[i].start_seconds);
  }
}

/// No kind of work is priced at the whole peak because nobody has said what it reaches.
TEST(Cluster, presets_say_what_each_kind_of_work_reaches) {
  for (const ClusterPreset& preset : cluster_presets())
    for (const WorkKind kind : work_kinds)
      EXPECT_NE(preset.cluster.efficiency_of(kind), Efficiency{})
          << preset.cluster.name << " " << name_of(kind);
}

}  // namespace
}  // namespace shardwright
