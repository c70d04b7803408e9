#include "shardwright/explain/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace shardwright {
namespace {

Mesh mesh(std::string_view text) {
  Scanner in(text);
  return parse_mesh(in);
}

Rule product(std::int64_t m, std::int64_t k, std::int64_t n) {
  const std::vector<Shape> operands{{m, k}, {k, n}};
  return bind_rule("m k+, k n -> m n", "", operands, {});
}

Strategy strategy(std::string_view text, const Rule& rule, const Mesh& mesh) {
  Scanner in(text);
  return parse_strategy(in, rule, mesh);
}

TEST(Candidates, are_all_legal_strategies_where_these_are_few) {
  const Mesh m = mesh("mesh [dp=2, tp=2]");
  const Rule rule = product(8, 8, 8);
  const Candidates c = candidates_of(rule, std::span(&m, 1), whole(rule));
  EXPECT_EQ(c.left_out, 0);
  EXPECT_EQ(c.strategies.size(), 16U);  // each of two axes: nowhere, m, k or n
}

TEST(Candidates, hold_the_planned_strategy_in_whatever_order_its_axes_are) {
  const Mesh m = mesh("mesh [dp=2, tp=2]");
  const Rule rule = product(8, 8, 8);
  const Strategy planned = strategy("{m: tp.dp}", rule, m);
  const Candidates c = candidates_of(rule, std::span(&m, 1), planned);
  EXPECT_EQ(std::ranges::count(c.strategies, planned), 1);
  EXPECT_EQ(c.strategies.size(), 17U);
}

TEST(Candidates, of_equal_parts_keep_the_one_nearest_to_the_planned) {
  const Mesh m = mesh("mesh [a=2, b=2, c=2, d=2]");
  const Rule rule = product(64, 64, 64);
  const Strategy planned = strategy("{m: b.d, n: a.c}", rule, m);
  const Candidates c = candidates_of(rule, std::span(&m, 1), planned, 40);
  // 4 halvings over m, k, n and nowhere: C(7, 3) ways to split; 4^4 strategies and the planned one's order.
  EXPECT_EQ(c.strategies.size(), 35U);
  EXPECT_EQ(c.strategies.size() + static_cast<std::size_t>(c.left_out), 256U);
  EXPECT_EQ(std::ranges::count(c.strategies, planned), 1);
}

TEST(Candidates, on_many_axes_are_reached_by_moves) {
  const Mesh m = mesh("mesh [a=2, b=2, c=2, d=2, e=2, f=2, g=2, h=2, i=2, j=2]");
  const Rule rule = product(4096, 4096, 4096);
  const Strategy planned = strategy("{m: a.b.c.d, n: e.f.g.h}", rule, m);
  const Candidates c = candidates_of(rule, std::span(&m, 1), planned);
  EXPECT_EQ(std::ranges::count(c.strategies, planned), 1);
  for (const char* all : {"{m: a.b.c.d.e.f.g.h.i.j}", "{n: a.b.c.d.e.f.g.h.i.j}", "{}"})
    EXPECT_EQ(std::ranges::count(c.strategies, strategy(all, rule, m)), 1) << all;
  EXPECT_LE(c.strategies.size(), 256U);
}

}  // namespace
}  // namespace shardwright
