// What --approximate leaves of an operator's strategies.
#include <gtest/gtest.h>

#include "shardwright/search/space/candidates.h"

namespace shardwright::space {
namespace {

/// Strategies that their place tells apart, the unsplit one first.
std::vector<Strategy> numbered(int count) {
  std::vector<Strategy> out(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) out[static_cast<std::size_t>(i)].mesh = i;
  return out;
}

std::vector<int> left(const std::vector<double>& cost, double approximation) {
  std::vector<int> out;
  for (const Strategy& s : approximated(numbered(static_cast<int>(cost.size())), cost, approximation))
    out.push_back(s.mesh);
  return out;
}

TEST(Approximated, are_the_cheapest_beside_the_unsplit_one) {
  const std::vector<double> cost{9, 5, 3, 7, 1, 8};
  EXPECT_EQ(left(cost, 1), (std::vector{0, 4}));
  EXPECT_EQ(left(cost, 0.5), (std::vector{0, 4, 3}));      // every third: of cost 1, of cost 7
  EXPECT_EQ(left(cost, 0.34), (std::vector{0, 4, 1, 5}));  // every second
}

TEST(Approximated, hold_the_unsplit_one_once) {
  EXPECT_EQ(left({1, 5, 3, 7}, 1), (std::vector{0}));
  EXPECT_EQ(left({1, 5, 3, 7}, 0.5), (std::vector{0, 1}));
}

TEST(Approximated, are_all_where_more_are_asked_for) {
  for (double approximation : {0.25, 1e-3, 1e-19, 1e-300, 5e-324})
    EXPECT_EQ(left({4, 3, 2, 1}, approximation), (std::vector{0, 1, 2, 3})) << approximation;
}

}  // namespace
}  // namespace shardwright::space
