// Check values of facts.md 3.9 and 2, and what follows from 3.2 to 3.8.
#include "shardwright/search/dynamic/described_costs.h"

#include <gtest/gtest.h>

#include "shardwright/cost/cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/text.h"

namespace shardwright::dynamic {
namespace {

struct One {
  Graph graph;
  Mesh mesh;
  Rule rule;
  Strategy strategy;

  One(const std::string& text, const std::string& axes, const std::string& split) : graph(parse_graph(text)) {
    Scanner a(axes, "mesh");
    mesh = parse_mesh(a);
    const Calls calls(graph);
    rule = calls.rule(node());
    Scanner s(split, "strategy");
    strategy = parse_strategy(s, rule, mesh);
  }
  NodeId node() const { return graph.value(graph.outputs.front()).producer; }
  Placed placed() const {
    return {.graph = &graph,
            .node = node(),
            .rule = &rule,
            .strategy = &strategy,
            .mesh = &mesh,
            .devices = mesh.size()};
  }
};

TEST(DescribedCosts, of_a_prelu_are_the_check_values) {
  const One one("%x = input f32[32, 32, 32, 32]\n%w = param f32[32, 1, 1]\n%y = prelu %x, %w\noutput %y\n",
                "mesh [a=4, b=4, c=4]", "{i0: a, i2: b, i3: c}");
  const DescribedCost cost = raw_cost(one.placed());
  EXPECT_EQ(cost.backward, 128);
  EXPECT_EQ(cost.computation, 8 * 32 * 8 * 8 * 4 + 128);
  EXPECT_EQ(cost.forward, 0);
}

TEST(DescribedCosts, of_a_product_are_the_check_values) {
  const auto cost = [](const char* kind) {
    return raw_cost(One(fmt::format("%x = input f32[200, 300]\n%w = {} f32[300, 500]\n%y = matmul %x, %w\n"
                                    "output %y\n",
                                    kind),
                        "mesh [a=10, b=6, c=20]", "{m: a, k: b, n: c}")
                        .placed());
  };
  EXPECT_EQ(cost("param").forward, 2000);
  EXPECT_EQ(cost("param").computation, 4000 + 5000 + 2000);
  EXPECT_EQ(cost("param").backward, 5000);
  EXPECT_EQ(cost("input").backward, 0);
}

TEST(DescribedCosts, of_a_parameter_whose_slices_all_devices_share_have_no_backward) {
  const char* const text =
      "%x = input f32[200, 300]\n%w = param f32[300, 500]\n%y = matmul %x, %w\noutput %y\n";
  EXPECT_EQ(raw_cost(One(text, "mesh [b=6, c=20]", "{k: b, n: c}").placed()).backward, 0);
}

/// Pure data parallelism is a byte cheaper, so that it wins ties.
TEST(DescribedCosts, of_the_batch_break_ties) {
  const char* const text = "%x = input f32[8, 4]\n%w = param f32[4, 8]\n%y = matmul %x, %w\noutput %y\n";
  const DescribedCost batch = cost_of(One(text, "mesh [a=4]", "{m: a}").placed());
  EXPECT_EQ(batch.computation, 8 * 4 + 4 * 8 * 4 - 1);
  EXPECT_EQ(batch.backward, 4 * 8 * 4 - 1);
  const DescribedCost columns = cost_of(One(text, "mesh [a=4]", "{n: a}").placed());
  EXPECT_EQ(columns.computation, 8 * 4 * 4 + 4 * 8);
  EXPECT_EQ(columns.backward, 0);
}

TEST(DescribedCosts, of_a_mean_pay_for_its_quotient) {
  const auto cost = [](const char* op) {
    return raw_cost(One(fmt::format("%x = input f32[8, 4]\n%y = {} %x (dims=[0])\noutput %y\n", op),
                        "mesh [a=4]", "{i0: a}")
                        .placed());
  };
  EXPECT_EQ(cost("reduce_sum").computation, 8 * 4 + 4 * 4);
  EXPECT_EQ(cost("reduce_mean").computation, 8 * 4 + 2 * 4 * 4);
  EXPECT_EQ(cost("reduce_mean").forward, 4 * 4);
}

TEST(DescribedCosts, of_rows_of_a_table_depend_on_whether_it_is_split) {
  const char* const text =
      "%table = param f32[16, 8]\n%ids = input i32[4]\n%y = gather %table, %ids (dim=0)\noutput %y\n";
  const DescribedCost whole = raw_cost(One(text, "mesh [a=4]", "{e0: a}").placed());
  EXPECT_EQ(whole.computation, 16 * 8 + 4 * 4);
  EXPECT_EQ(whole.forward, 0);
  const DescribedCost split = raw_cost(One(text, "mesh [a=4]", "{v: a}").placed());
  EXPECT_EQ(split.computation, 3 * 16 * 8 + 7 * 4 * 4);
  EXPECT_EQ(split.forward, 4 * 8 * 4);
}

/// facts.md 2.3, 3.4: two times what a device has, once that lies right; whatever is not sent costs no message.
TEST(DescribedCosts, of_a_reshape_are_its_redistribution) {
  const char* const text = "%x = param f32[8, 4]\n%y = reshape %x (shape=[8, 2, 2])\noutput %y\n";
  const DescribedCost cost = raw_cost(One(text, "mesh [a=4]", "{i0: a}").placed());
  EXPECT_EQ(cost.computation, 2 * 2 * 4 * 4);
  EXPECT_EQ(cost.forward, 0);
}

TEST(DescribedCosts, of_small_messages_are_corrected) {
  EXPECT_EQ(as_sent(0), 0);
  EXPECT_EQ(as_sent(1), 3072);
  EXPECT_EQ(as_sent(2048), 3072);
  EXPECT_EQ(as_sent(2049), 3073);
}

TEST(DescribedCosts, weigh_communication_by_the_kind_of_devices) {
  EXPECT_EQ(cost_weights(cluster_called("ascend910b:8")).beta, 400);
  EXPECT_EQ(cost_weights(cluster_called("a100-80g:8")).beta, 50);
  EXPECT_EQ(CostWeights{}.of({.computation = 10, .forward = 2, .backward = 1000}), 10 + 400 * (2 + 1));
}

// ---- redistributions ----

Spread spread(const std::string& axes, const std::string& layout) {
  Scanner a(axes, "mesh");
  const Mesh mesh = parse_mesh(a);
  Scanner l(layout, "layout");
  return spread_of(parse_layout(l, mesh), mesh, {});
}

/// facts.md 2.5: 1024 elements on each of four devices, gathered along dim 0.
TEST(DescribedMoves, of_a_gather_are_the_check_values) {
  const Spread from = spread("mesh [a=4]", "[a, -]"), to = spread("mesh [a=4]", "[-, -]");
  const MovedElements moved = moved_elements(from, to, {64, 64});
  EXPECT_EQ(moved.forward * 4, 8192);
  EXPECT_EQ(moved.backward * 4, 2048);
  EXPECT_EQ(cost_of_moving(from, to, {DType::f32, {64, 64}}).forward, 9216 + 3072);
}

TEST(DescribedMoves, slices_send_nothing) {
  const MovedElements moved =
      moved_elements(spread("mesh [a=4]", "[-, -]"), spread("mesh [a=4]", "[-, a]"), {64, 64});
  EXPECT_EQ(moved.forward + moved.backward, 0);
  EXPECT_EQ(moved.computation, 64 * 64);
}

/// facts.md 2.5: the dim is reshaped, sliced, gathered and sliced again.
TEST(DescribedMoves, between_two_arrangements_go_through_their_common_one) {
  const MovedElements moved = moved_elements(spread("mesh [a=2, b=4, c=2]", "[a, c]"),
                                             spread("mesh [a=4, b=2, c=2]", "[a, b]"), {512, 1024});
  const double slice = 256 * 512;
  EXPECT_EQ(moved.forward, slice / 2 * 2 / 2);
  EXPECT_EQ(moved.backward, slice / 2 / 2);
  EXPECT_EQ(moved.computation, slice + (slice / 2 + slice / 2 + 2 * slice) + slice + 2 * slice);
}

TEST(DescribedMoves, of_what_lies_alike_are_free) {
  EXPECT_EQ(moved_elements(spread("mesh [a=2, b=2]", "[a.b, -]"), spread("mesh [a=4]", "[a, -]"), {64, 64})
                .computation,
            0);
}

TEST(DescribedMoves, swap_two_dims_by_gathering_one_after_the_other) {
  const MovedElements moved =
      moved_elements(spread("mesh [a=2, b=2]", "[a, b]"), spread("mesh [a=2, b=2]", "[b, a]"), {64, 64});
  EXPECT_EQ(moved.forward, 1024 + 2048);  // dim 0 first, whereupon dim 1 is gathered to be sliced anew
}

/// facts.md 2.2: all slices come before what is sent, so that a quarter of it is.
TEST(DescribedMoves, slice_all_dims_before_they_exchange_any) {
  const std::string mesh = "mesh [a=2, b=4]";
  const MovedElements moved =
      moved_elements(spread(mesh, "[-, a, -]"), spread(mesh, "[a, -, b]"), {64, 64, 64});
  const double part = 64 * 64 * 64 / 2;
  EXPECT_EQ(moved.forward, part / 4 * 2 / 2);
  EXPECT_EQ(moved.backward, part / 4 / 2);
}

/// facts.md 2.2: before any is sliced anew.
TEST(DescribedMoves, gather_all_unwanted_dims_at_once) {
  const std::string mesh = "mesh [a=2, b=2, c=2]";
  const MovedElements moved = moved_elements(spread(mesh, "[a, b]"), spread(mesh, "[c, -]"), {64, 64});
  EXPECT_EQ(moved.forward, 1024 * 2 / 2 + 2048 * 2 / 2);
  EXPECT_EQ(moved.backward, 1024 / 2 + 2048 / 2);
}

/// facts.md 2.1: what is gathered is the first dim then, and is reshaped.
TEST(DescribedMoves, leave_out_dims_of_size_1) {
  const MovedElements moved =
      moved_elements(spread("mesh [a=4]", "[-, a]"), spread("mesh [a=4]", "[-, -]"), {1, 64});
  EXPECT_EQ(moved.forward, 16 * 4 / 2);
  EXPECT_EQ(moved.computation, 16 + 16 + 2 * 16);
  EXPECT_EQ(moved_elements(spread("mesh [a=4]", "[-, a]"), spread("mesh [a=2, b=2]", "[-, a.b]"), {1, 64})
                .computation,
            0);
}

TEST(DescribedMoves, between_what_has_no_common_arrangement_go_through_the_whole) {
  const MovedElements moved =
      moved_elements(spread("mesh [a=2, b=3]", "[a, -]"), spread("mesh [a=3, b=2]", "[a, -]"), {6, 6});
  EXPECT_EQ(moved.forward, 18.0 * 2 / 2);
  EXPECT_EQ(moved.backward, 18.0 / 2);
  EXPECT_EQ(moved.computation, (18 + 18) + 36 + 2 * 36);  // gathered, sliced, and reshaped between
}

TEST(DescribedMoves, of_booleans_are_dearer_than_anything_else) {
  const Spread from = spread("mesh [a=4]", "[a, -]"), to = spread("mesh [a=4]", "[-, -]");
  EXPECT_GE(cost_of_moving(from, to, {DType::boolean, {64, 64}}).forward, 1e20);
}

}  // namespace
}  // namespace shardwright::dynamic
