#include "shardwright/search/dynamic/fronts.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/drawn_tables.h"

namespace shardwright::dynamic {
namespace {

using shardwright::testing::drawn_tables;
using shardwright::testing::DrawnTables;

TEST(Fronts, are_those_of_all_combinations) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const DrawnTables d = drawn_tables(2 + static_cast<int>(seed % 7), random);
    const ParetoSet found = pareto_set(d.seconds, d.bytes, {.most_points = 10000});
    EXPECT_TRUE(found.is_exact) << "seed " << seed;
    std::vector<std::pair<double, double>> points;
    for (const ParetoPlan& p : found.plans) {
      points.emplace_back(p.seconds, p.bytes);
      EXPECT_EQ(d.seconds.value(p.choices), p.seconds) << "seed " << seed;
      EXPECT_EQ(d.bytes_of(p.choices), p.bytes) << "seed " << seed;
    }
    EXPECT_EQ(points, d.pareto_set()) << "seed " << seed;
  }
}

TEST(Fronts, without_time_are_of_choices_all_the_same) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const DrawnTables d = drawn_tables(8, random);
    const ParetoSet found = pareto_set(d.seconds, d.bytes, {.deadline = Deadline(0.0)});
    EXPECT_EQ(found.plans.front().seconds, d.pareto_set().front().first) << "seed " << seed;
    for (const ParetoPlan& p : found.plans) {
      EXPECT_EQ(d.seconds.value(p.choices), p.seconds) << "seed " << seed;
      EXPECT_EQ(d.bytes_of(p.choices), p.bytes) << "seed " << seed;
    }
  }
}

TEST(Fronts, thinned_keep_the_fastest_and_the_leanest) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const DrawnTables d = drawn_tables(8, random);
    const auto all = d.pareto_set();
    const ParetoSet found = pareto_set(d.seconds, d.bytes, {.most_points = 4});
    EXPECT_LE(found.plans.size(), 4U);
    EXPECT_EQ(found.plans.front().seconds, all.front().first) << "seed " << seed;
    EXPECT_EQ(found.plans.back().bytes, all.back().second) << "seed " << seed;
  }
}

TEST(Fronts, of_any_graph_are_choices_of_it) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    DrawnTables d = drawn_tables(6, random);
    for (int u = 0; u < 6; ++u)
      for (int v = u + 1; v < 6; ++v) {
        std::vector<double> table(
            static_cast<std::size_t>(d.seconds.choices_of(u) * d.seconds.choices_of(v)));
        for (double& x : table) x = static_cast<double>(random() % 20);
        d.seconds.add(u, v, table);
      }
    for (const ParetoPlan& p : pareto_set(d.seconds, d.bytes).plans)
      EXPECT_EQ(d.seconds.value(p.choices), p.seconds) << "seed " << seed;
  }
}

}  // namespace
}  // namespace shardwright::dynamic
