#include "shardwright/simulate/evaluate.h"

#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace shardwright {
namespace {

const char* const small = R"(
mesh [tp=1]
%x = input f32[16] as [16] [-]
%y = relu %x : f32[16] as [16] [-]
output %y
)";

TEST(Evaluate, says_by_how_much_a_program_does_not_fit) {
  const Program p = testing::program_of(small);  // two places of 64 bytes
  const Cluster cluster = cluster_called("cpu:1");
  EXPECT_TRUE(evaluate(p, cluster, {.memory_cap = 128}).fits());
  EXPECT_EQ(evaluate(p, cluster, {.memory_cap = 128}).excess_bytes(), 0);
  const Evaluation e = evaluate(p, cluster, {.memory_cap = 100});
  EXPECT_FALSE(e.fits());
  EXPECT_EQ(e.excess_bytes(), 28);
  ASSERT_EQ(e.estimate.memory.largest.size(), 2u);
  EXPECT_EQ(e.estimate.memory.largest[0].bytes, 64);
}

TEST(Evaluate, takes_the_memory_of_the_cluster_less_what_is_reserved_and_a_margin) {
  const Program p = testing::program_of(small);
  Cluster a100 = cluster_called("a100-80g:1");
  const std::int64_t left = (80LL << 30) - 2'000'000'000;
  EXPECT_EQ(left_bytes(a100), left);
  EXPECT_NEAR(static_cast<double>(evaluate(p, a100).cap_bytes), 0.94 * static_cast<double>(left), 1);
  a100.memory_margin = 0;
  EXPECT_EQ(evaluate(p, a100).cap_bytes, left);
  EXPECT_EQ(evaluate(p, cluster_called("cpu:1")).cap_bytes, 8'000'000'000);
  Cluster tiny = cluster_called("cpu:1");
  tiny.memory_bytes = 200;
  tiny.reserved_bytes = 100;
  tiny.memory_margin = 0;
  EXPECT_EQ(evaluate(p, tiny).excess_bytes(), 28);
}

}  // namespace
}  // namespace shardwright
