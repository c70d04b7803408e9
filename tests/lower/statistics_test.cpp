// Operators that need a statistic of the whole batch, of all classes or of a row, and find it however these are split:
// batch norm, cross entropy in terms, rms norm in steps. Nothing but their rules says where to communicate.

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/random.h"
#include "shardwright/graph/builder.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/ops/calls.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/plan/complete.h"
#include "shardwright/runtime/session.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

using Leaves = std::map<std::string, Tensor>;

struct Network {
  Graph graph;
  ValueId loss;
};

/// sum of tanh(batch_norm(w)) c
Network normalised() {
  Network n;
  Builder builder(n.graph);
  const Type type{DType::f64, {8, 6, 4}}, channels{DType::f64, {6}};
  const ValueId c = builder.leaf(OpKind::input, "c", type);
  const ValueId w = builder.leaf(OpKind::parameter, "w", type);
  const BatchNorm norm{.gamma = builder.leaf(OpKind::parameter, "gamma", channels),
                       .beta = builder.leaf(OpKind::parameter, "beta", channels),
                       .mean = builder.leaf(OpKind::state, "mean", channels, {{"init", "zeros"}}),
                       .variance = builder.leaf(OpKind::state, "variance", channels, {{"init", "ones"}})};
  const ValueId y = builder.call("tanh", {batch_norm(builder, w, norm, "y")});
  n.loss = builder.call("reduce_mean", {builder.call("mul", {y, c})}, {}, "loss");
  return n;
}

/// sum of tanh(rms_norm(x w)) c, twice: the second norm over two dims.
Network normalised_by_rows() {
  Network n;
  Builder builder(n.graph);
  const ValueId x = builder.leaf(OpKind::input, "x", {DType::f64, {4, 6, 12}});
  const ValueId c = builder.leaf(OpKind::input, "c", {DType::f64, {4, 6, 12}});
  const ValueId w = builder.leaf(OpKind::parameter, "w", {DType::f64, {12, 12}});
  const ValueId gamma = builder.leaf(OpKind::parameter, "gamma", {DType::f64, {12}});
  const ValueId wide = builder.leaf(OpKind::parameter, "wide", {DType::f64, {6, 12}});
  const ValueId y =
      builder.call("rms_norm", {builder.call("matmul", {x, w}), gamma}, {{"epsilon", 0.5}}, "y");
  const ValueId z = builder.call("rms_norm", {builder.call("tanh", {y}), wide}, {}, "z");
  n.loss = builder.call("reduce_mean", {builder.call("mul", {z, c})}, {}, "loss");
  return n;
}

Network classified(DType dtype, std::int64_t rows, std::int64_t classes) {
  Network n;
  Builder builder(n.graph);
  const ValueId x = builder.leaf(OpKind::input, "x", {dtype, {rows, 12}});
  const ValueId labels = builder.leaf(OpKind::input, "labels", {DType::i32, {rows}});
  const ValueId w = builder.leaf(OpKind::parameter, "w", {dtype, {12, classes}});
  const ValueId logits = builder.call("matmul", {x, w}, {}, "logits");
  n.loss = builder.call("reduce_mean", {cross_entropy(builder, logits, labels, false, "cross_entropy")}, {},
                        "loss");
  return n;
}

/// Splits every dim of `size` elements, and nothing else, over the first axis.
void split_dims_of(Graph& graph, std::int64_t size, const Mesh& mesh) {
  graph.level = Level::planned;
  graph.meshes = {mesh};
  for (Node& node : graph.nodes) {
    Value& v = graph.value(node.results[0]);
    if (node.op->kind != OpKind::compute) {
      v.layout = replicated(v.type.shape.size());
      for (std::size_t d = 0; d < v.type.shape.size(); ++d)
        if (v.type.shape[d] == size) v.layout->dims[d] = {0};
      continue;
    }
    const Rule rule = rule_of(graph, node);
    node.strategy = whole(rule);
    for (std::size_t l = 0; l < rule.loops.size(); ++l)
      if (rule.loops[l].size == size) node.strategy->loops[l] = {0};
  }
}

Program program_of(Graph graph) {
  Redistributor redistributor(graph.meshes[0], {.even_only = true});
  complete(graph, redistributor);
  return optimize(lower(graph, redistributor), {redistributor});
}

std::map<std::string, int> collectives(const Program& p, Phase phase) {
  std::map<std::string, int> out;
  for (const Node& node : p.graph.nodes)
    if (node.phase == phase && node.op->step && !is_local(*node.op->step))
      ++out[std::string(name_of(*node.op->step))];
  return out;
}

TEST(BatchNormSplitByBatch, reduces_moments_and_two_gradients) {
  Network n = normalised();
  split_dims_of(n.graph, 8, {{{"dp", 4}}});
  add_train_step(n.graph, n.loss, {});
  const Program p = program_of(n.graph);
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(collectives(p, Phase::forward), (Counts{{"all_reduce", 2}}));   // moments, loss
  EXPECT_EQ(collectives(p, Phase::backward), (Counts{{"all_reduce", 2}}));  // dgamma, dbeta
  EXPECT_EQ(collectives(p, Phase::update), Counts{});
}

TEST(RmsNormSplitByFeatures, reduces_a_sum_of_each_row_each_way) {
  Network n;
  Builder builder(n.graph);
  const ValueId x = builder.leaf(OpKind::input, "x", {DType::f32, {4, 12}});
  const ValueId w = builder.leaf(OpKind::parameter, "w", {DType::f32, {4, 12}});
  const ValueId gamma = builder.leaf(OpKind::parameter, "gamma", {DType::f32, {12}});
  const ValueId y = builder.call("rms_norm", {builder.call("mul", {x, w}), gamma}, {}, "y");
  n.loss = builder.call("reduce_mean", {y}, {}, "loss");
  split_dims_of(n.graph, 12, {{{"tp", 4}}});
  add_train_step(n.graph, n.loss, {});
  const Program p = program_of(n.graph);
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(collectives(p, Phase::forward), (Counts{{"all_reduce", 2}}));  // squares, loss
  const Counts backward = collectives(p, Phase::backward);  // dot, and squares unless they are kept
  EXPECT_EQ(backward.size(), 1U);
  EXPECT_LE(backward.at("all_reduce"), 2);
  EXPECT_EQ(collectives(p, Phase::update), Counts{});
  for (const Node& node : p.graph.nodes) EXPECT_FALSE(node.op->expand) << node.op->name;
}

TEST(RmsNormSplitByFeatures, is_nothing_that_a_search_tries) {
  const Network n = normalised_by_rows();
  for (const Node& node : n.graph.nodes)
    for (const Strategy& s : legal_strategies(rule_of(n.graph, node), {{{"a", 2}, {"b", 2}}}))
      EXPECT_FALSE(needs_expansion(rule_of(n.graph, node), s)) << node.op->name;
}

TEST(RmsNormSplitByFeatures, is_refused_where_operands_are_partial) {
  const Mesh mesh{{{"a", 2}, {"b", 2}}};
  Graph graph = normalised_by_rows().graph;
  const Node& node = graph.node(graph.value(graph.find("y")).producer);
  const Rule rule = rule_of(graph, node);
  Scanner in("{n0: a, +0: b}", "strategy");
  const Strategy s = parse_strategy(in, rule, mesh);
  EXPECT_EQ(violation_as_asked(rule, s, mesh), "dim n0 must stay whole where operands are partial");
}

/// No rank holds more than its part of anything that has classes.
TEST(CrossEntropySplitByClasses, gathers_no_row_of_a_million_classes) {
  constexpr std::int64_t rows = 16, classes = 1'000'000, ranks = 8;
  Network n = classified(DType::f32, rows, classes);
  split_dims_of(n.graph, classes, {{{"tp", ranks}}});
  add_train_step(n.graph, n.loss, {});
  const Program p = program_of(n.graph);
  for (const Value& v : p.graph.values)
    for (const std::int64_t size : v.type.shape) EXPECT_LE(size, classes / ranks) << v.name;
  // weight, logits and their gradients, and little else
  const std::int64_t part = classes / ranks * 4;
  EXPECT_LE(p.arena_bytes, part * (2 * 12 + 2 * rows) + 100'000);
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(collectives(p, Phase::forward), (Counts{{"all_reduce", 2}}));  // a max; both sums at once
  EXPECT_EQ(collectives(p, Phase::backward), Counts{});
  EXPECT_EQ(collectives(p, Phase::update), Counts{});
}

/// Every strategy that a plan may ask for.
std::vector<Strategy> askable_strategies(Rule rule, const Mesh& mesh) {
  const Rule as_it_is = rule;
  for (LoopDim& dim : rule.loops)
    if (dim.kind == LoopKind::expandable) dim.kind = LoopKind::plain;
  std::vector<Strategy> out = legal_strategies(rule, mesh);
  std::erase_if(out, [&](const Strategy& s) { return violation_as_asked(as_it_is, s, mesh).has_value(); });
  return out;
}

struct Case {
  std::string name;
  Network network;
  std::int64_t bound = 1;  // of integers
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Statistics : public ::testing::TestWithParam<Case> {};

TEST_P(Statistics, are_those_of_the_whole_under_any_plan) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const Mesh mesh = seed % 2 ? Mesh{{{"a", 2}, {"b", 2}}} : Mesh{{{"a", 2}, {"b", 3}}};
    const RandomStream dice(seed, "statistics");
    Graph graph = GetParam().network.graph;
    graph.level = Level::planned;
    graph.meshes = {mesh};
    std::uint64_t next = 0;
    Leaves leaves, batch;
    for (Node& node : graph.nodes) {
      Value& v = graph.value(node.results[0]);
      if (node.op->kind != OpKind::compute) {
        v.layout = replicated(v.type.shape.size());
        const Domain domain = is_floating(v.type.dtype) ? Domain::any : Domain::below;
        leaves[v.name] =
            draw({{{v.type, domain, GetParam().bound}}, {}}, Values::reals, seed + 100 * ++next)[0];
        if (node.op->kind == OpKind::input) batch[v.name] = leaves[v.name];
        continue;
      }
      const auto all = askable_strategies(rule_of(graph, node), mesh);
      node.strategy =
          all[static_cast<std::size_t>(dice.below(next++, static_cast<std::int64_t>(all.size())))];
    }
    add_train_step(graph, GetParam().network.loss, {.name = "sgd", .attributes = {{"rate", 0.5}}});
    const std::vector<Tensor> want = evaluate(graph, leaves);
    Session session(program_of(graph));
    for (const Node& node : graph.nodes)
      if (node.op->kind == OpKind::parameter || node.op->kind == OpKind::state)
        session.set(graph.value(node.results[0]).name, leaves.at(graph.value(node.results[0]).name));
    const double loss = to_doubles(session.step(batch)[0])[0];
    EXPECT_NEAR(loss, to_doubles(want[static_cast<std::size_t>(GetParam().network.loss.index)])[0], 1e-12);
    for (const Update& u : graph.updates) {
      const auto expected = to_doubles(want[static_cast<std::size_t>(u.value.index)]);
      const auto found = to_doubles(session.get(graph.value(u.leaf).name));
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-12) << graph.value(u.leaf).name << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Statistics,
                         ::testing::Values(Case{"batch_norm", normalised()},
                                           Case{"rms_norm", normalised_by_rows()},
                                           Case{"cross_entropy", classified(DType::f64, 6, 24), 24}),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace shardwright
