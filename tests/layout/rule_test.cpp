#include "shardwright/layout/rule.h"

#include <gtest/gtest.h>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Shapes = std::vector<Shape>;

Rule bound(std::string_view text, const Shapes& operands, const Shapes& results = {},
           std::string_view linear = "") {
  return bind_rule(text, linear, operands, results);
}

/// `i0=2 m=4 k+=8, i0 k n -> i0 m n`: sizes and marks where a loop dim first stands.
std::string told(const Rule& rule) {
  std::string out;
  std::vector<bool> seen(rule.loops.size(), false);
  const auto add = [&](const std::vector<RuleTensor>& side) {
    for (std::size_t t = 0; t < side.size(); ++t) {
      if (t) out += ",";
      if (!side[t].is_sharded) out += " ?";
      for (const auto& loops : side[t].dims) {
        if (loops.empty()) out += side[t].is_sharded ? " 1" : "";
        std::string dim;
        for (int l : loops) {
          const LoopDim& loop = rule.loops[static_cast<std::size_t>(l)];
          dim += (dim.empty() ? "" : " ") + loop.name;
          if (seen[static_cast<std::size_t>(l)]) continue;
          seen[static_cast<std::size_t>(l)] = true;
          const char* const marks[] = {"", "+", ">", "^"};
          dim += fmt::format("{}={}", marks[static_cast<std::size_t>(loop.kind)], loop.size);
        }
        if (!loops.empty()) out += loops.size() > 1 ? " (" + dim + ")" : " " + dim;
      }
    }
  };
  add(rule.operands);
  out += " ->";
  add(rule.results);
  return out;
}

struct Case {
  std::string text;
  Shapes operands;
  Shapes results;
  std::string told;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.text; }

class BoundRules : public testing::TestWithParam<Case> {};

TEST_P(BoundRules, are_bound_to_shapes) {
  const Case& c = GetParam();
  EXPECT_EQ(told(bound(c.text, c.operands, c.results)), c.told);
}

INSTANTIATE_TEST_SUITE_P(
    Rule, BoundRules,
    testing::Values(
        Case{"m k+, k+ n -> m n", {{4, 8}, {8, 6}}, {}, " m=4 k+=8, k n=6 -> m n"},
        Case{"... m k+, ... k+ n -> ... m n", {{4, 8}, {8, 6}}, {}, " m=4 k+=8, k n=6 -> m n"},
        Case{"... m k+, ... k+ n -> ... m n",
             {{2, 3, 4, 8}, {2, 3, 8, 6}},
             {},
             " i0=2 i1=3 m=4 k+=8, i0 i1 k n=6 -> i0 i1 m n"},
        Case{"... -> ...", {{}}, {}, " ->"}, Case{"... c^ -> ... c^", {{5, 7}}, {}, " i0=5 c^=7 -> i0 c"},
        Case{"... c> -> ...", {{5, 7}}, {}, " i0=5 c>=7 -> i0"},
        Case{"b (h d) -> b h d", {{2, 12}}, {{2, 3, 4}}, " b=2 (h=3 d=4) -> b h d"},
        Case{"b h d -> b (h d)", {{2, 3, 4}}, {{2, 12}}, " b=2 h=3 d=4 -> b (h d)"},
        Case{"(a b) c -> a (b c)", {{6, 4}}, {{2, 12}}, " (a=2 b=3) c=4 -> a (b c)"},
        Case{"m 1 -> m", {{4, 1}}, {}, " m=4 1 -> m"}, Case{"m, ? -> m", {{4}, {3, 3}}, {}, " m=4, ? -> m"},
        Case{"m, . -> m", {{4}, {}}, {}, " m=4, -> m"}, Case{" -> ...", {}, {{4, 6}}, " -> i0=4 i1=6"},
        Case{"i -> i v", {{4}}, {{4, 6}}, " i=4 -> i v=6"}));

TEST(Rule, tells_the_shapes_of_results) {
  EXPECT_EQ(result_shapes(bound("... m k+, ... k+ n -> ... m n", {{2, 4, 8}, {2, 8, 6}})),
            (Shapes{{2, 4, 6}}));
  EXPECT_EQ(result_shapes(bound("b h d -> b (h d)", {{2, 3, 4}}, {{2, 12}})), (Shapes{{2, 12}}));
  EXPECT_EQ(result_shapes(bound("m k -> m 1, k", {{4, 8}})), (Shapes{{4, 1}, {8}}));
  EXPECT_EQ(result_shapes(bound("m k -> ", {{4, 8}})), Shapes{});
}

TEST(Rule, finds_loop_dims_by_name) {
  const Rule rule = bound("... m k+, ... k+ n -> ... m n", {{4, 8}, {8, 6}});
  EXPECT_EQ(rule.loop("m"), 0);
  EXPECT_EQ(rule.loop("k"), 1);
  EXPECT_EQ(rule.loop("n"), 2);
  EXPECT_EQ(rule.loop("k+"), -1);
}

TEST(Rule, reads_linear_groups) {
  const auto groups = [](std::string_view text) { return bound("m, m -> m", {{4}, {4}}, {}, text).linear; };
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(groups(""), Groups{});
  EXPECT_EQ(groups("{0,1}"), (Groups{{0, 1}}));
  EXPECT_EQ(groups("{0} {1}"), (Groups{{0}, {1}}));
}

// An operand that is not sharded lies whole on every rank, whatever its rank is.
TEST(Rule, an_unsharded_operand_keeps_its_dims) {
  const Rule rule = bound("m, ? -> m", {{4}, {3, 5}});
  EXPECT_FALSE(rule.operands[1].is_sharded);
  EXPECT_EQ(rule.operands[1].dims.size(), 2);
}

TEST(Rule, names_what_does_not_fit) {
  const auto error = [](std::string_view text, const Shapes& operands, const Shapes& results = {}) {
    return error_of([&] { bound(text, operands, results); });
  };
  const std::string matmul = "... m k+, ... k+ n -> ... m n";
  EXPECT_EQ(error(matmul, {{4, 8}, {6, 6}}), "dim k is 8 in operand 0 but 6 in operand 1");
  EXPECT_EQ(error(matmul, {{4, 8}}), "has 1 operands but takes 2");
  EXPECT_EQ(error(matmul, {{4}, {4, 8}}), "operand 0 [4] has 1 dims but should have 2");
  EXPECT_EQ(error(matmul, {{2, 4, 8}, {8, 6}}), "operand 1 [8, 6] has 2 dims but should have 3");
  EXPECT_EQ(error(matmul, {{2, 4, 8}, {3, 8, 6}}), "dim i0 is 2 in operand 0 but 3 in operand 1");
  EXPECT_EQ(error("m 1 -> m", {{4, 2}}), "operand 0 has a dim of 2 where 1 is needed");
  EXPECT_EQ(error("b h d -> b (h d)", {{2, 3, 4}}, {{2, 13}}), "dim 1 of result 0 is 13 but 12 is needed");
  EXPECT_EQ(error("b (h d) -> b h d", {{2, 13}}, {{2, 3, 4}}), "dim 1 of operand 0 is 13 but 12 is needed");
  EXPECT_EQ(error("m -> m", {{4}}, {{5}}), "dim m is 4 in operand 0 but 5 in result 0");
  EXPECT_THROW(bound("m n", {{4, 4}}), InternalError);
  EXPECT_THROW(bound("(a b) -> a b", {{12}}), InternalError);  // nothing tells a and b
}

}  // namespace
}  // namespace shardwright
