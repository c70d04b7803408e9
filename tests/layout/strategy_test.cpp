#include "shardwright/layout/strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "shardwright/layout/uneven.h"
#include "tests/support/layouts.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using testing::Draw;
using testing::mesh_of;

using Shapes = std::vector<Shape>;

Strategy strategy_of(std::string_view text, const Rule& rule, const Mesh& mesh) {
  Scanner in(text);
  return parse_strategy(in, rule, mesh);
}

Rule matmul(const Shape& a = {4, 8}, const Shape& b = {8, 12}) {
  return bind_rule("... m k+, ... k+ n -> ... m n", "{0} {1}", Shapes{a, b}, {});
}

/// Layouts of operands -> of results.
std::string told(const Rule& rule, const Strategy& s, const Mesh& mesh) {
  const NodeLayouts l = layouts_of(rule, s);
  std::string out;
  for (std::size_t i = 0; i < l.operands.size(); ++i) out += (i ? ", " : "") + to_text(l.operands[i], mesh);
  out += " ->";
  for (std::size_t i = 0; i < l.results.size(); ++i) out += (i ? ", " : " ") + to_text(l.results[i], mesh);
  return out;
}

struct Bound {
  std::string rule;
  std::string linear;
  Shapes operands;
  Shapes results;
  Rule bind() const { return bind_rule(rule, linear, operands, results); }
};

const Bound product{"... m k+, ... k+ n -> ... m n", "{0} {1}", {{4, 8}, {8, 12}}, {}};
const Bound batched{"... m k+, ... k+ n -> ... m n", "{0} {1}", {{2, 4, 6}, {2, 6, 4}}, {}};
const Bound addition{"i0 i1, i0 i1 -> i0 i1", "{0,1}", {{4, 6}, {4, 6}}, {}};
const Bound softmax{"... c^ -> ... c^", "", {{4, 6}}, {}};
const Bound largest{"... c> -> ...", "", {{4, 6}}, {}};
const Bound split_heads{"b (h d) -> b h d", "{0}", {{2, 12}}, {{2, 4, 3}}};
const Bound two_results{"m k+ -> m, m k", "{0}", {{4, 6}}, {}};
const Bound with_table{"m, ? -> m", "{0}", {{4}, {3, 5}}, {}};

struct LayoutCase {
  Bound bound;
  std::string strategy;
  std::string layouts;
};

TEST(Strategy, tells_the_layouts_of_its_node) {
  const Mesh mesh = mesh_of("mesh [dp=2, tp=2, sp=2]");
  const std::vector<LayoutCase> cases = {
      {product, "{}", "[-, -], [-, -] -> [-, -]"},
      {product, "{m: dp}", "[dp, -], [-, -] -> [dp, -]"},
      {product, "{n: tp}", "[-, -], [-, tp] -> [-, tp]"},
      {product, "{k: tp}", "[-, tp], [tp, -] -> [-, -] sum(tp)"},
      {product, "{m: dp, k: tp.sp}", "[dp, tp.sp], [tp.sp, -] -> [dp, -] sum(tp, sp)"},
      {product, "{m: dp, n: sp.tp}", "[dp, -], [-, sp.tp] -> [dp, sp.tp]"},
      {product, "{+0: tp}", "[-, -] sum(tp), [-, -] -> [-, -] sum(tp)"},
      {product, "{+1: tp}", "[-, -], [-, -] sum(tp) -> [-, -] sum(tp)"},
      {product, "{m: dp, k: sp, +0: tp}", "[dp, sp] sum(tp), [sp, -] -> [dp, -] sum(tp, sp)"},
      {batched, "{i0: dp, m: tp}", "[dp, tp, -], [dp, -, -] -> [dp, tp, -]"},
      {addition, "{i0: dp, +0: tp}", "[dp, -] sum(tp), [dp, -] sum(tp) -> [dp, -] sum(tp)"},
      {softmax, "{i0: dp.tp}", "[dp.tp, -] -> [dp.tp, -]"},
      {largest, "{i0: dp, c: tp}", "[dp, tp] -> [dp] max(tp)"},
      {split_heads, "{b: dp, h: tp}", "[dp, tp] -> [dp, tp, -]"},
      {split_heads, "{h: tp.dp}", "[-, tp.dp] -> [-, tp.dp, -]"},
      {two_results, "{m: dp, k: tp}", "[dp, tp] -> [dp] sum(tp), [dp, tp]"},
      {with_table, "{m: dp}", "[dp], [-, -] -> [dp]"},
      {with_table, "{m: dp, +0: tp}", "[dp] sum(tp), [-, -] -> [dp] sum(tp)"},
  };
  for (const LayoutCase& c : cases) {
    const Rule rule = c.bound.bind();
    const Strategy s = strategy_of(c.strategy, rule, mesh);
    EXPECT_EQ(violation(rule, s, mesh).value_or("legal"), "legal") << c.bound.rule << " " << c.strategy;
    EXPECT_EQ(told(rule, s, mesh), c.layouts) << c.bound.rule << " " << c.strategy;
  }
}

TEST(Strategy, says_why_it_is_not_legal) {
  const Mesh mesh = mesh_of("mesh [dp=2, tp=4, odd=3]");
  const auto why = [&](const Bound& bound, const char* text) {
    const Rule rule = bound.bind();
    return violation(rule, strategy_of(text, rule, mesh), mesh).value_or("legal");
  };
  EXPECT_EQ(why(product, "{m: dp, n: dp}"), "axis 'dp' is used twice");
  EXPECT_EQ(why(product, "{m: dp, +0: dp}"), "axis 'dp' is used twice");
  EXPECT_EQ(why(softmax, "{c: dp}"), "dim c (size 6) must stay whole but is split into 2");
  EXPECT_EQ(why(product, "{m: dp.tp}"), "dim m of size 4 cannot be split evenly into 8");
  EXPECT_EQ(why(split_heads, "{h: odd}"), "dim h of size 4 cannot be split evenly into 3");
  EXPECT_EQ(why(split_heads, "{h: dp, d: odd/1}"),
            "dim d can be split only when the dims before it are split down to 1");
  EXPECT_EQ(why(split_heads, "{d: odd}"),
            "dim d can be split only when the dims before it are split down to 1");
  EXPECT_EQ(why(split_heads, "{h: dp, d: odd}"),
            "dim d can be split only when the dims before it are split down to 1");
  EXPECT_EQ(why(split_heads, "{h: tp, d: odd}"), "legal");
  EXPECT_EQ(violation(product.bind(), whole(softmax.bind()), mesh).value_or("legal"),
            "the strategy is for 2 loop dims but the operator has 3");
}

/// A dim of its own may be cut unevenly; of one of several the major, where the others stay together.
TEST(Strategy, cuts_unevenly_what_may_be) {
  const Mesh mesh = mesh_of("mesh [dp=2, tp=4, odd=3]");
  const auto told_of = [&](const Bound& bound, const char* text) {
    const Rule rule = bound.bind();
    const Strategy s = strategy_of(text, rule, mesh);
    EXPECT_EQ(violation(rule, s, mesh).value_or("legal"), "legal") << text;
    EXPECT_NE(violation_if_even(rule, s, mesh), std::nullopt) << text;
    return to_text(s, rule, mesh) + " " + told(rule, s, mesh);
  };
  EXPECT_EQ(told_of(product, "{m: odd}"), "{m: odd} [odd, -], [-, -] -> [odd, -]");
  EXPECT_EQ(told_of(product, "{m: odd/1}"), "{m: odd/1} [odd, -], [-, -] -> [odd, -]");
  EXPECT_EQ(told_of(split_heads, "{h: odd/1}"), "{h: odd/1} [-, odd/3] -> [-, odd, -]");
  const Mesh shared = mesh_of("mesh [dp=2 by 1:3, tp=2]");
  const Rule of_product = product.bind();
  const Strategy by_shares = strategy_of("{m: dp/shares}", of_product, shared);
  EXPECT_EQ(to_text(by_shares, of_product, shared), "{m: dp/shares}");
  EXPECT_EQ(told(of_product, by_shares, shared), "[dp/shares, -], [-, -] -> [dp/shares, -]");
  EXPECT_EQ(violation(of_product, by_shares, shared).value_or("legal"), "legal");
  EXPECT_NE(violation_if_even(of_product, by_shares, shared), std::nullopt);
  // What is cut alike without a grain has none.
  const Rule rule = split_heads.bind();
  EXPECT_EQ(strategy_of("{h: tp/1}", rule, mesh), strategy_of("{h: tp}", rule, mesh));
}

/// All ways to give axes to loop dims and linear groups, legal or not, written down with no thought.
std::set<Strategy> every_strategy(const Rule& rule, const Mesh& mesh) {
  std::set<Strategy> out{whole(rule)};
  for (bool is_new = true; is_new;) {
    std::set<Strategy> wider = out;
    for (const Strategy& s : out)
      for (int a : mesh.all_axes().without(used_axes(s))) {
        for (std::size_t l = 0; l < s.loops.size(); ++l) {
          Strategy t = s;
          t.loops[l].push_back(a);
          wider.insert(t);
        }
        for (std::size_t g = 0; g < s.linear.size(); ++g) {
          Strategy t = s;
          t.linear[g].push_back(a);
          t.linear[g] = t.linear[g].sorted();
          wider.insert(t);
        }
      }
    is_new = wider.size() > out.size();
    out = std::move(wider);
  }
  return out;
}

const std::vector<Bound> bounds{product, batched,     addition,    softmax,
                                largest, split_heads, two_results, with_table};
const char* const meshes[] = {"mesh []",         "mesh [a=2]",          "mesh [a=3]",
                              "mesh [a=2, b=2]", "mesh [a=2, b=3]",     "mesh [a=4, b=3]",
                              "mesh [a=1, b=2]", "mesh [a=2, b=2, c=2]"};

TEST(Strategy, all_legal_ones_are_offered_and_no_others) {
  for (const Bound& bound : bounds)
    for (const char* text : meshes) {
      const Mesh mesh = mesh_of(text);
      const Rule rule = bound.bind();
      std::set<Strategy> want, in_order, no_linear;
      for (const Strategy& s : every_strategy(rule, mesh)) {
        bool uses_one = false, is_in_order = true;
        for (int a : used_axes(s)) uses_one = uses_one || mesh.size_of(a) == 1;
        if (uses_one || violation_if_even(rule, s, mesh)) continue;
        for (const Axes& axes : s.loops) is_in_order = is_in_order && axes == axes.sorted();
        want.insert(s);
        if (!is_in_order) continue;
        in_order.insert(s);
        if (std::all_of(s.linear.begin(), s.linear.end(), [](const Axes& a) { return a.empty(); }))
          no_linear.insert(s);
      }
      const auto offered = [&](const StrategyOptions& options) {
        const auto list = legal_strategies(rule, mesh, options);
        EXPECT_EQ(list.front(), whole(rule));
        const std::set<Strategy> set(list.begin(), list.end());
        EXPECT_EQ(set.size(), list.size());
        return set;
      };
      EXPECT_EQ(offered({.all_orders = true}), want) << bound.rule << " on " << text;
      EXPECT_EQ(offered({}), in_order) << bound.rule << " on " << text;
      EXPECT_EQ(offered({.linear = false}), no_linear) << bound.rule << " on " << text;
    }
}

TEST(Strategy, comes_back_from_its_text_and_differs_from_others) {
  for (const Bound& bound : bounds)
    for (const char* text : meshes) {
      const Mesh mesh = mesh_of(text);
      const Rule rule = bound.bind();
      std::set<std::string> texts;
      for (const Strategy& s : legal_strategies(rule, mesh, {.all_orders = true})) {
        const std::string printed = to_text(s, rule, mesh);
        EXPECT_EQ(strategy_of(printed, rule, mesh), s) << printed;
        EXPECT_TRUE(texts.insert(printed).second) << printed;
      }
    }
}

// From the layouts of operands and results the strategy can be read off again.
TEST(Strategy, can_be_read_off_its_layouts) {
  for (const Bound& bound : bounds)
    for (const char* text : meshes) {
      const Mesh mesh = mesh_of(text);
      const Rule rule = bound.bind();
      for (const Strategy& s : legal_strategies(rule, mesh, {.all_orders = true})) {
        const NodeLayouts l = layouts_of(rule, s);
        Strategy read = whole(rule);
        const auto read_dims = [&](const RuleTensor& tensor, const Layout& layout) {
          ASSERT_EQ(layout.dims.size(), tensor.dims.size());
          for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
            int next = 0;
            for (int loop : tensor.dims[d]) {
              const std::size_t at = static_cast<std::size_t>(loop);
              const int count = tensor.dims[d].size() == 1 ? layout.dims[d].size() : s.loops[at].size();
              read.loops[at] = {};
              for (int i = 0; i < count; ++i) read.loops[at].push_back(layout.dims[d][next++]);
            }
            ASSERT_EQ(next, layout.dims[d].size());
          }
        };
        for (std::size_t i = 0; i < l.operands.size(); ++i) read_dims(rule.operands[i], l.operands[i]);
        for (std::size_t i = 0; i < l.results.size(); ++i) read_dims(rule.results[i], l.results[i]);
        for (std::size_t g = 0; g < rule.linear.size(); ++g)
          read.linear[g] = l.operands[static_cast<std::size_t>(rule.linear[g][0])].sum;
        EXPECT_EQ(read, s) << bound.rule << " " << to_text(s, rule, mesh);
        EXPECT_NO_THROW({
          for (std::size_t i = 0; i < l.operands.size(); ++i) check(l.operands[i], mesh, bound.operands[i]);
          for (std::size_t i = 0; i < l.results.size(); ++i)
            check(l.results[i], mesh, result_shapes(rule)[i]);
        });
      }
    }
}

TEST(Strategy, gives_each_rank_its_part_of_the_loops) {
  const Mesh mesh = mesh_of("mesh [dp=2, tp=4]");
  const Rule rule = matmul();
  const Strategy s = strategy_of("{m: dp, k: tp}", rule, mesh);
  for (int r = 0; r < 8; ++r) {
    const LoopBox b = loop_box(rule, s, mesh, r);
    EXPECT_EQ(b.loops[0].offset, r / 4 * 2);
    EXPECT_EQ(b.loops[0].extent, 2);
    EXPECT_EQ(b.loops[0].size, 4);
    EXPECT_EQ(b.loops[1].offset, r % 4 * 2);
    EXPECT_EQ(b.loops[1].extent, 2);
    EXPECT_EQ(b.loops[2].offset, 0);
    EXPECT_EQ(b.loops[2].extent, 12);
  }
}

// ((2, 4), (4, 1)) of seed 000 and ((1, 8), (8, 1)): the dim that both share is summed.
TEST(Strategy, is_told_in_the_integers_of_the_seeds) {
  const Mesh mesh = mesh_of("mesh [a=2, b=4]");
  const Rule rule = matmul({32, 784}, {784, 512});
  const auto integers = [&](const char* text) {
    const Strategy s = strategy_of(text, rule, mesh);
    return std::vector{integers_of(rule.operands[0], s, mesh), integers_of(rule.operands[1], s, mesh),
                       integers_of(rule.results[0], s, mesh)};
  };
  using Lists = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(integers("{m: a, k: b}"), (Lists{{2, 4}, {4, 1}, {2, 1}}));
  EXPECT_EQ(integers("{k: a.b}"), (Lists{{1, 8}, {8, 1}, {1, 1}}));
  EXPECT_EQ(integers("{}"), (Lists{{1, 1}, {1, 1}, {1, 1}}));
  const Rule heads = split_heads.bind();
  const Mesh four = mesh_of("mesh [a=4, b=3]");
  EXPECT_EQ(integers_of(heads.operands[0], strategy_of("{h: a, d: b}", heads, four), four),
            (std::vector<std::int64_t>{1, 12}));
}

TEST(Strategy, names_what_is_wrong_in_its_text) {
  const Mesh mesh = mesh_of("mesh [dp=2, tp=2]");
  const auto error = [&](const char* text) { return error_of([&] { strategy_of(text, matmul(), mesh); }); };
  EXPECT_EQ(error("{q: dp}"), "loop dim 'q' does not exist; the operator has m, k, n");
  EXPECT_EQ(error("{m: pp}"), "axis 'pp' is not in mesh [dp=2, tp=2]");
  EXPECT_EQ(error("{+2: dp}"), "linear group +2 does not exist; the operator has 2");
  EXPECT_EQ(error("{m: dp, m: tp}"), "loop dim 'm' is twice in the strategy");
  EXPECT_EQ(error("{+0: dp, +0: tp}"), "linear group +0 is twice in the strategy");
  EXPECT_EQ(error("{m dp}"), "text: expected ':' at 'dp}' in '{m dp}'");
  EXPECT_EQ(error("{m: -}"), "no error");
}

TEST(Strategy, of_axes_of_size_one_is_not_offered) {
  const Mesh mesh = mesh_of("mesh [a=1]");
  EXPECT_EQ(legal_strategies(matmul(), mesh).size(), 1);
}

}  // namespace
}  // namespace shardwright
