// Gradients of small networks against central differences of the same graphs on one device.

#include "shardwright/autodiff/backward.h"

#include <gtest/gtest.h>

#include "shardwright/base/random.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "tests/support/evaluate.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Leaves = std::map<std::string, Tensor>;

Leaves draw_leaves(const Graph& graph) {
  Leaves out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::compute) continue;
    const Value& v = graph.value(node.results[0]);
    const RandomStream random(5, v.name);
    std::vector<double> values(static_cast<std::size_t>(element_count(v.type.shape)));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = is_floating(v.type.dtype) ? random.normal(i) : static_cast<double>(random.below(i, 3));
    out[v.name] = make_tensor(v.type, values);
  }
  return out;
}

double loss_of(const Graph& graph, const Leaves& leaves, ValueId loss) {
  return evaluate(graph, leaves)[static_cast<std::size_t>(loss.index)].as<double>()[0];
}

struct Case {
  std::string name, text;  // the last node is the loss
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Backward : public testing::TestWithParam<Case> {};

TEST_P(Backward, is_the_slope_of_the_loss) {
  const Graph forward = parse_graph(GetParam().text);
  const ValueId loss = forward.find("loss");
  Graph graph = forward;
  const auto gradients = add_backward(graph, loss);
  ASSERT_NO_THROW(verify(graph));
  ASSERT_FALSE(gradients.empty());
  Leaves leaves = draw_leaves(forward);
  const std::vector<Tensor> values = evaluate(graph, leaves);
  for (const auto& [parameter, gradient] : gradients) {
    const std::string& name = forward.value(parameter).name;
    ASSERT_EQ(graph.value(gradient).type, forward.value(parameter).type) << name;
    const std::vector<double> got = to_doubles(values[static_cast<std::size_t>(gradient.index)]);
    for (std::size_t i = 0; i < got.size(); ++i) {
      constexpr double step = 1e-5;
      double& x = leaves[name].as<double>()[i];
      const double before = x;
      x = before + step;
      const double above = loss_of(forward, leaves, loss);
      x = before - step;
      const double below = loss_of(forward, leaves, loss);
      x = before;
      const double want = (above - below) / (2 * step);
      ASSERT_NEAR(got[i], want, 1e-6 * std::max(1.0, std::abs(want))) << name << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Backward,
                         testing::Values(Case{"dense_with_broadcast_bias", R"(
%x = input f64[4, 3]
%w = param f64[3, 2]
%b = param f64[2]
%y = matmul %x, %w
%z = add %y, %b
%a = tanh %z
%loss = reduce_mean %a)"},
                                         Case{"cross_entropy", R"(
%x = input f64[4, 3]
%t = input i32[4]
%w = param f64[3, 3]
%y = matmul %x, %w
%most = reduce_max %y (dims=[1])
%fixed = stop_gradient %most
%terms = cross_entropy_terms %y, %t, %fixed
%ce = cross_entropy_of_terms %terms
%loss = reduce_mean %ce)"},
                                         Case{"batch_norm_by_the_moments_of_its_batch", R"(
%w = param f64[4, 3, 2]
%gamma = param f64[3]
%beta = param f64[3]
%m = batch_moments %w
%y = batch_norm %w, %gamma, %beta, %m
%a = tanh %y
%loss = reduce_mean %a)"},
                                         Case{"a_parameter_used_twice", R"(
%x = input f64[4, 3]
%w = param f64[3, 3]
%y = matmul %x, %w
%a = tanh %y
%z = matmul %a, %w (transpose_b=true)
%loss = reduce_mean %z)"},
                                         Case{"a_parameter_used_twice_by_one_node", R"(
%w = param f64[3]
%y = mul %w, %w
%z = add %y, %y
%loss = reduce_sum %z)"},
                                         Case{"branches_that_join", R"(
%x = input f64[4, 3]
%w = param f64[3, 3]
%y = matmul %x, %w
%a = tanh %y
%b = exp %y
%c = mul %a, %b
%d = sub %c, %y
%loss = reduce_mean %d)"},
                                         Case{"a_branch_that_carries_no_gradient", R"(
%x = input f64[4, 3]
%w = param f64[3, 3]
%y = matmul %x, %w
%unused = exp %y
%loss = reduce_mean %y)"},
                                         Case{"broadcast_of_dims_of_one", R"(
%w = param f64[4, 1]
%v = param f64[1, 3]
%s = param f64[]
%y = mul %w, %v
%z = div %y, %s
%e = square %z
%loss = reduce_sum %e)"},
                                         Case{"reshapes_and_transposes", R"(
%x = input f64[2, 6]
%w = param f64[6, 6]
%y = matmul %x, %w
%r = reshape %y (shape=[2, 3, 2])
%t = transpose %r (dims=[1, 0, 2])
%m = softmax %t
%q = square %m
%loss = reduce_sum %q)"}),
                         [](const auto& c) { return c.param.name; });

Graph differentiated(std::string_view text) {
  Graph g = parse_graph(text);
  add_backward(g, g.find("loss"));
  return g;
}

int count_of(const Graph& g, std::string_view op) {
  int n = 0;
  for (const Node& node : g.nodes) n += node.op->name == op;
  return n;
}

TEST(BackwardGraph, sums_all_contributions_at_once) {
  const Graph g = differentiated(R"(
%w = param f64[3]
%a = exp %w
%b = tanh %w
%c = square %w
%d = mul %a, %b
%e = mul %d, %c
%loss = reduce_sum %e)");
  EXPECT_EQ(count_of(g, "sum"), 1);
  for (const Node& node : g.nodes)
    if (node.op->name == "sum") {
      EXPECT_EQ(node.operands.size(), 3);
      EXPECT_FALSE(node.forward.is_valid());
      EXPECT_EQ(g.value(node.results[0]).gradient_of, (std::vector<ValueId>{g.find("w")}));
    }
}

TEST(BackwardGraph, remembers_what_it_differentiates) {
  const Graph g = differentiated(R"(
%x = input f64[4, 3]
%w = param f64[3, 2]
%y = matmul %x, %w
%loss = reduce_sum %y)");
  for (const Node& node : g.nodes) {
    if (node.phase != Phase::backward || node.op->name == "fill") continue;
    EXPECT_TRUE(node.forward.is_valid()) << to_text(g);
    EXPECT_EQ(g.node(node.forward).phase, Phase::forward);
  }
  // Nothing is computed for the input, which needs no gradient.
  for (const Value& v : g.values)
    for (ValueId of : v.gradient_of) EXPECT_NE(of, g.find("x"));
}

TEST(BackwardGraph, gives_no_gradient_to_what_the_loss_does_not_see) {
  Graph g = parse_graph("%w = param f64[3]\n%v = param f64[3]\n%y = exp %v\n%loss = reduce_sum %w");
  const auto gradients = add_backward(g, g.find("loss"));
  EXPECT_EQ(gradients.size(), 1);
  EXPECT_TRUE(gradients.contains(g.find("w")));
}

TEST(BackwardGraph, stops_where_it_is_told) {
  Graph g = parse_graph("%w = param f64[3]\n%s = stop_gradient %w\n%y = mul %w, %s\n%loss = reduce_sum %y");
  const auto gradients = add_backward(g, g.find("loss"));
  const Leaves leaves = draw_leaves(parse_graph("%w = param f64[3]"));
  const auto values = evaluate(g, leaves);
  EXPECT_EQ(to_doubles(values[static_cast<std::size_t>(gradients.at(g.find("w")).index)]),
            to_doubles(leaves.at("w")));
}

TEST(BackwardGraph, needs_a_floating_scalar) {
  const auto error = [](std::string_view text) { return error_of([&] { differentiated(text); }); };
  EXPECT_EQ(error("%w = param f32[3]\n%loss = exp %w"),
            "the loss %loss is f32[3]; it should be a floating scalar");
  EXPECT_EQ(error("%x = input i32[3]\n%loss = reduce_sum %x"),
            "the loss %loss is i32[]; it should be a floating scalar");
  EXPECT_EQ(error("%w = param f32[3]\n%m = sgd %w, %w (rate=0.1)\n%loss = reduce_sum %m"),
            "m: operator sgd has no gradient");
}

TEST(BackwardGraph, an_error_of_a_gradient_names_its_node) {
  OpDef op = find_op("exp");
  op.gradient = [](Gradient&) -> std::vector<ValueId> { throw error("x is of no use"); };
  Graph graph;
  Builder builder(graph);
  const ValueId w = builder.leaf(OpKind::parameter, "w", {DType::f32, {}});
  const ValueId y = builder.call_all(op, {w}, {}, "y")[0];
  EXPECT_EQ(error_of([&] { add_backward(graph, y); }), "the gradient of y = exp: x is of no use");
}

}  // namespace
}  // namespace shardwright
