#include "shardwright/simulate/reuse.h"

#include <gtest/gtest.h>

#include "shardwright/graph/op.h"
#include "shardwright/simulate/stage_prices.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

/// Of a chain of products whose values have 4 KiB each.
Program chain() {
  return testing::program_of(R"(
mesh [dp=1]
%x = input f32[32, 32] [-, -]
%w = param f32[32, 32] (init=normal) [-, -]
%a = matmul %x, %w {} : f32[32, 32] [-, -]
%b = matmul %a, %w {} : f32[32, 32] [-, -]
output %b
)");
}

int node_of(const Program& program, std::string_view value) {
  return program.graph.value(program.graph.find(value)).producer.index;
}

TEST(Reuse, counts_the_traffic_since_a_value_was_touched) {
  const Program program = chain();
  const Reuse reuse(program);
  const auto of_b = reuse.of(node_of(program, "b"));
  ASSERT_EQ(of_b.size(), 3U);  // a, w, b
  constexpr double size = 4096;
  for (const Touch& t : of_b) EXPECT_EQ(t.bytes, size);
  EXPECT_EQ(of_b[0].since, size);      // just made: its first line that long ago
  EXPECT_EQ(of_b[1].since, 3 * size);  // since then a was made and read
  for (const Touch& t : of_b) EXPECT_LE(t.since, static_cast<double>(program.arena_bytes));
}

TEST(Reuse, makes_kernels_faster_where_a_cache_holds_what_they_read) {
  const Program program = chain();
  Cluster cluster = cluster_called("cpu:1");
  cluster.flops_per_second.f32 = 1e18;
  const auto seconds = [&] {
    std::vector<OwnedSeconds> owned;
    return StagePrices(program, 0, cluster).compute_seconds_of(node_of(program, "b"), 0, owned);
  };
  const double from_memory = seconds();
  cluster.caches = {{4096, 2 * cluster.memory_bytes_per_second}};
  const double of_one = seconds();  // only what was just made
  cluster.caches[0].bytes = 1 << 20;
  const double of_all = seconds();
  EXPECT_LT(of_one, from_memory);
  EXPECT_LT(of_all, of_one);
  EXPECT_GT(of_all, 0.5 * from_memory - 1e-12);
}

}  // namespace
}  // namespace shardwright
