#include "shardwright/exchange/python/call_line.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

const Mesh mesh{{{"dp", 2}, {"tp", 3}}};

TEST(ByRank, is_the_value_where_all_ranks_have_one) {
  EXPECT_EQ(by_rank(std::vector<std::string>(6, "4"), mesh), "4");
}

TEST(ByRank, names_only_axes_that_matter) {
  EXPECT_EQ(by_rank({"0", "8", "16", "0", "8", "16"}, mesh), "8 * tp");
  EXPECT_EQ(by_rank({"3", "3", "3", "4", "4", "4"}, mesh), "3 + dp");
  EXPECT_EQ(by_rank({"5", "1", "1", "5", "1", "1"}, mesh), "(5, 1, 1)[tp]");
  EXPECT_EQ(by_rank({"x", "y", "y", "y", "y", "y"}, mesh), "(x, y, y, y, y, y)[dp * 3 + tp]");
  EXPECT_EQ(by_rank({"0", "2", "4", "6", "8", "10"}, mesh), "2 * (dp * 3 + tp)");
}

TEST(ByRank, looks_at_elements_of_lists) {
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(by_rank(std::vector<List>{{4, 0}, {4, 2}, {4, 4}, {4, 0}, {4, 2}, {4, 4}}, mesh), "[4, 2 * tp]");
  EXPECT_EQ(by_rank(std::vector<List>{{1}, {1}, {1}, {1, 2}, {1, 2}, {1, 2}}, mesh), "([1], [1, 2])[dp]");
}

TEST(ByRank, is_a_table_and_tuples_where_coordinates_are_known_when_it_runs) {
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(by_rank({"5", "1", "1", "5", "1", "1"}, mesh, Engine::jax), "jnp.array([5, 1, 1])[tp]");
  EXPECT_EQ(by_rank({"0", "8", "16", "0", "8", "16"}, mesh, Engine::jax), "8 * tp");
  EXPECT_EQ(by_rank(std::vector<List>(6, {4, 2}), mesh, Engine::jax), "(4, 2)");
  EXPECT_EQ(by_rank(std::vector<List>(6, {4}), mesh, Engine::jax), "(4,)");
  EXPECT_EQ(by_rank(std::vector<List>(6), mesh, Engine::jax), "()");
}

TEST(PythonLiteral, is_what_python_reads) {
  EXPECT_EQ(python_literal(true), "True");
  EXPECT_EQ(python_literal(1e-5), "1e-05");
  EXPECT_EQ(python_literal(3.0), "3.0");
  EXPECT_EQ(python_literal(std::string("a'b\\")), "'a\\'b\\\\'");
  EXPECT_EQ(python_literal(std::vector<std::int64_t>{1, -2}), "[1, -2]");
}

TEST(PythonFunctions, are_parted_by_their_names) {
  const auto all =
      python_functions("\ndef a(x):\n    return x\n\n\ndef b(x):\n    \"\"\"\n    def c\n    \"\"\"\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].first, "a");
  EXPECT_EQ(all[0].second, "def a(x):\n    return x\n");
  EXPECT_EQ(all[1].first, "b");
}

/// What `line` says of an operator of two operands.
template <class Line>
std::string told(const OpDef& op, Line line) {
  const Attributes none;
  const Call call{{}, {}, none};
  const auto on_rank = [](int) -> const KernelCall& { throw error("no rank is looked at"); };
  try {
    return line({op, call, {"a", "b"}, mesh, on_rank});
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(TorchLine, refuses_an_operator_that_is_not_written_by_its_name) {
  const OpDef op{.name = "hypot", .rule = "... -> ..."};
  EXPECT_EQ(told(op, torch_line), "hypot is not written in PyTorch yet");
}

TEST(JointLine, has_the_places_of_both_calls) {
  const OpDef first{.name = "left", .attributes = {"k"}}, second{.name = "right", .attributes = {"k"}};
  const Attributes two{{"k", std::int64_t{2}}}, three{{"k", std::int64_t{3}}};
  const KernelCall of_first{{}, {}, two, {}, {}}, of_second{{}, {}, three, {}, {}};
  const TorchCall a{
      first, {{}, {}, two}, {"a", "b"}, mesh, [&](int) -> const KernelCall& { return of_first; }};
  const TorchCall b{
      second, {{}, {}, three}, {"c", "a"}, mesh, [&](int) -> const KernelCall& { return of_second; }};
  EXPECT_EQ(joint_line({"right", {{0, 1}}, "both({0}, {1}, {other.0}, {k}, {other.k})"}, a, b),
            "both(a, b, c, 2, 3)");
}

TEST(JaxLine, is_that_of_pytorch_where_it_names_nothing_of_it) {
  EXPECT_EQ(told({.name = "add", .torch = {.line = "{0} + {1}"}}, jax_line), "a + b");
  EXPECT_EQ(
      told({.name = "exp", .torch = {.line = "torch.exp({0})"}, .jax = {.line = "jnp.exp({0})"}}, jax_line),
      "jnp.exp(a)");
  EXPECT_EQ(told({.name = "hypot", .torch = {.line = "torch.hypot({0}, {1})"}}, jax_line),
            "hypot is not written in JAX yet");
}

}  // namespace
}  // namespace shardwright
