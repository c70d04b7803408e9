#include "shardwright/search/space/minimum.h"

#include <gtest/gtest.h>

#include <random>

namespace shardwright::space {
namespace {

struct Drawn {
  TableSum sum;
  std::vector<int> choices;
};

/// `edges` between variables of 1 to 4 choices; tables of small integers, so that sums are exact.
Drawn drawn(int variables, const std::vector<std::pair<int, int>>& edges, std::mt19937& random) {
  Drawn out;
  std::uniform_int_distribution<int> number(0, 20), count(1, 4);
  for (int v = 0; v < variables; ++v) {
    out.choices.push_back(count(random));
    out.sum.add_variable(out.choices.back());
    for (double& x : out.sum.single(v)) x = number(random);
  }
  for (const auto& [u, v] : edges) {
    std::vector<double> table(static_cast<std::size_t>(out.choices[u] * out.choices[v]));
    for (double& x : table) x = number(random);
    out.sum.add(u, v, table);
  }
  return out;
}

double least_by_force(const Drawn& d) {
  std::vector<int> x(d.choices.size(), 0);
  double least = d.sum.value(x);
  for (;;) {
    std::size_t v = 0;
    while (v < x.size() && ++x[v] == d.choices[v]) x[v++] = 0;
    if (v == x.size()) return least;
    least = std::min(least, d.sum.value(x));
  }
}

/// From one edge by doubling edges and putting variables on them.
std::vector<std::pair<int, int>> series_parallel(int variables, std::mt19937& random) {
  std::vector<std::pair<int, int>> edges{{0, 1}};
  for (int v = 2; v < variables; ++v) {
    const auto e = std::uniform_int_distribution<std::size_t>(0, edges.size() - 1)(random);
    const auto [a, b] = edges[e];
    if (random() % 2) edges[e] = edges.back(), edges.pop_back();  // series; else parallel to it
    edges.emplace_back(a, v);
    edges.emplace_back(v, b);
  }
  return edges;
}

TEST(Minimum, of_series_and_parallel_branches_is_exact) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int variables = 2 + static_cast<int>(seed % 7);
    const Drawn d = drawn(variables, series_parallel(variables, random), random);
    const TableSum::Minimum found = d.sum.minimum();
    EXPECT_TRUE(found.is_proven) << "seed " << seed;
    EXPECT_EQ(found.value, least_by_force(d)) << "seed " << seed;
    EXPECT_EQ(found.value, d.sum.value(found.choices)) << "seed " << seed;
  }
}

TEST(Minimum, of_any_graph_is_one_that_no_single_change_lowers) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<int, int>> all;
    for (int u = 0; u < 6; ++u)
      for (int v = u + 1; v < 6; ++v) all.emplace_back(u, v);
    const Drawn d = drawn(6, all, random);
    const TableSum::Minimum found = d.sum.minimum();
    EXPECT_GE(found.value, least_by_force(d));
    for (int v = 0; v < 6; ++v) {
      const std::vector<double> along = d.sum.along(v, found.choices);
      const double own = along[static_cast<std::size_t>(found.choices[static_cast<std::size_t>(v)])];
      EXPECT_EQ(own, *std::min_element(along.begin(), along.end())) << "seed " << seed << ", variable " << v;
    }
  }
}

TEST(Minimum, without_time_is_a_choice_all_the_same) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const Drawn d = drawn(6, series_parallel(6, random), random);
    const TableSum::Minimum found = d.sum.minimum(Deadline(0.0));
    EXPECT_FALSE(found.is_proven) << "seed " << seed;
    EXPECT_EQ(found.value, d.sum.value(found.choices)) << "seed " << seed;
    EXPECT_GE(found.value, d.sum.minimum().value) << "seed " << seed;
  }
}

TEST(Minimum, a_table_of_a_variable_with_itself_counts_its_diagonal) {
  TableSum sum;
  const int v = sum.add_variable(2);
  sum.add(v, v, std::vector<double>{3, 100, 100, 2});
  EXPECT_EQ(sum.minimum().value, 2);
  EXPECT_EQ(sum.minimum().choices, std::vector<int>{1});
}

}  // namespace
}  // namespace shardwright::space
