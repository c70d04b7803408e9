#include "shardwright/search/integer/program.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/drawn_tables.h"

namespace shardwright::integer {
namespace {

using shardwright::testing::drawn_tables;
using shardwright::testing::DrawnTables;

TEST(IntegerProgram, finds_the_least_of_all_combinations_that_fit) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const DrawnTables d = drawn_tables(2 + static_cast<int>(seed % 6), random);
    const auto front = d.pareto_set();
    Program program(d.seconds, d.bytes, 1e6, front.front().first);
    for (const auto& [seconds, bytes] : front) {
      const Solved found = program.solve({.bytes = bytes + 0.5});
      EXPECT_EQ(found.status, Solved::Status::optimal) << "seed " << seed;
      EXPECT_EQ(found.value, seconds) << "seed " << seed << ", " << bytes << " bytes";
      EXPECT_NEAR(found.bound, seconds, 1e-3) << "seed " << seed;
    }
    EXPECT_EQ(program.solve({}).value, front.front().first) << "seed " << seed;
    if (const double least = front.back().second; least > 0) {
      EXPECT_EQ(program.solve({.bytes = least - 0.5}).status, Solved::Status::infeasible) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace shardwright::integer
