// Graphs that code differentiates itself: gradients of any value as outputs, updates by some of them, under any plan.
#include "shardwright/frontend/graph_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shardwright/autodiff/backward.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/ops/calls.h"
#include "shardwright/runtime/eager.h"

namespace shardwright {
namespace {

constexpr std::int64_t batch = 8, features = 6, hidden = 5, classes = 3;

struct Way {
  const char* name;
  int devices = 1, micro_batches = 1, stages = 1;
};

/// loss, the gradients of both weights and of x, and the sum of h, which is added behind them.
GraphStep step_of(const Way& way, bool updates) {
  static const Parameter first{"first", {features, hidden}, uniform(1)},
      second{"second", {hidden, classes}, uniform(1)};
  Trace trace{Precision(DType::f64)};
  const Traced x = trace.input("x", {DType::f64, {batch / way.micro_batches, features}});
  const Traced y = trace.input("y", {DType::f64, {batch / way.micro_batches, classes}});
  const Traced h = tanh("tanh")(matmul("up")(x, first));
  const Traced loss = MeanSquaredError{}(matmul("down")(h, second), y);
  const Traced weights[] = {trace.parameter(first), trace.parameter(second)};
  const auto gradients = add_backward(trace.builder(), loss.id, {.of = {weights[0].id, weights[1].id, x.id}});
  Graph& graph = trace.graph();
  trace.builder().set_phase(Phase::update);
  graph.outputs = {loss.id};
  for (const Traced& w : weights) graph.outputs.push_back(shifted(trace.builder(), gradients.at(w.id), 0));
  graph.outputs.push_back(gradients.at(x.id));
  if (updates) add_updates(graph, {{weights[0].id, gradients.at(weights[0].id)}}, adam(0.1));
  TrainOptions options{.devices = way.devices, .search = "recursive"};
  options.settings.pipelining = {.stages = way.stages, .micro_batches = way.micro_batches};
  return GraphStep(plan_graph({std::move(graph), trace.constraints()}, adam(0.1), options), {"x", "y"},
                   options);
}

std::vector<Tensor> data() {
  std::vector<Tensor> out;
  for (const std::int64_t columns : {features, classes}) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < batch * columns; ++i)
      values.push_back(std::sin(0.7 * static_cast<double>(i + columns)));
    out.push_back(make_tensor({DType::f64, {batch, columns}}, values));
  }
  return out;
}

class Gradients : public ::testing::TestWithParam<Way> {};

TEST_P(Gradients, are_those_of_one_device) {
  GraphStep alone = step_of({"alone"}, true), step = step_of(GetParam(), true);
  for (int i = 0; i < 3; ++i) {
    const std::vector<Tensor> want = alone(data()), have = step(data());
    ASSERT_EQ(have.size(), want.size());
    for (std::size_t o = 0; o < want.size(); ++o) {
      ASSERT_EQ(have[o].type(), want[o].type()) << o;
      const std::vector<double> a = to_doubles(want[o]), b = to_doubles(have[o]);
      for (std::size_t e = 0; e < a.size(); ++e) EXPECT_NEAR(a[e], b[e], 1e-12) << o << " " << e;
    }
  }
  EXPECT_EQ(step.session().get("second"), alone.session().get("second"));  // which nobody updates
}

INSTANTIATE_TEST_SUITE_P(Ways, Gradients,
                         ::testing::Values(Way{"data_2", 2}, Way{"data_4", 4}, Way{"micro_batches", 1, 4},
                                           Way{"both", 2, 2}, Way{"stages", 2, 4, 2},
                                           Way{"stages_of_2", 4, 2, 2}),
                         [](const auto& test) { return test.param.name; });

// What is wanted may be an input, whose slope finite differences know.
TEST(Gradients, of_inputs_are_slopes) {
  GraphStep step = step_of({"alone"}, false);
  const std::vector<Tensor> at = data();
  const std::vector<double> gradient = to_doubles(step(at)[3]), x = to_doubles(at[0]);
  for (std::size_t i = 0; i < x.size(); i += 7) {
    constexpr double by = 1e-6;
    double ends[2];
    for (const int side : {0, 1}) {
      std::vector<double> moved = x;
      moved[i] += side == 0 ? -by : by;
      ends[side] = to_doubles(step({make_tensor(at[0].type(), moved), at[1]})[0])[0];
    }
    EXPECT_NEAR(gradient[i], (ends[1] - ends[0]) / (2 * by), 1e-9) << i;
  }
}

// Two optimizers of one step share its count and its rate.
TEST(Gradients, may_be_taken_by_several_optimizers) {
  static const Parameter a{"a", {4}, ones()}, b{"b", {4}, ones()};
  Trace trace;
  const Traced x = trace.input("x", {DType::f32, {4}});
  const Traced loss = MeanSquaredError{}(multiply("product")(add("sum")(x, a), b), x);
  const Traced leaves[] = {trace.parameter(a), trace.parameter(b)};
  const auto gradients = add_backward(trace.builder(), loss.id);
  Graph& graph = trace.graph();
  graph.outputs = {loss.id};
  OptimizerChoice optimizer = adam(0.1);
  optimizer.has_set_rate = true;
  for (const Traced& leaf : leaves) add_updates(graph, {{leaf.id, gradients.at(leaf.id)}}, optimizer);
  GraphStep step(plan_graph({std::move(graph)}, optimizer, {}), {"x"}, {});
  const std::vector<double> x0{1, 2, 3, 4};
  for (int i = 0; i < 2; ++i) step({make_tensor({DType::f32, {4}}, x0)});
  EXPECT_EQ(to_doubles(step.session().get(steps_state))[0], 2);
  EXPECT_NEAR(to_doubles(step.session().get("a"))[0], 0.8, 5e-3);  // two steps of 0.1
}

TEST(Eager, computes_as_programs_do) {
  const Tensor x = make_tensor({DType::f32, {2, 3}}, std::vector<double>{1, 2, 3, 4, 5, 6});
  for (int i = 0; i < 3; ++i) {
    const Tensor sum =
        run_operator(find_op("reduce_sum"), {{x}}, {{"dims", std::vector<std::int64_t>{1}}})[0];
    EXPECT_EQ(to_doubles(sum), (std::vector<double>{6, 15}));
    EXPECT_EQ(to_doubles(run_operator(find_op("add"), {{x, sum.size() == 2 ? x : sum}})[0])[5], 12);
  }
  const Tensor large({DType::f32, {300, 300}});  // which is not copied first
  EXPECT_EQ(run_operator(find_op("matmul"), {{large, large}})[0].shape(), (Shape{300, 300}));
  EXPECT_THROW(run_operator(find_op("matmul"), {{x, x}}), Error);
  EXPECT_THROW(run_operator(find_op("all_reduce"), {{x}}), Error);
}

// Lent elements are read where they are, and copied by whoever writes.
TEST(Eager, tensors_may_be_lent) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  Tensor lent({DType::f32, {3}}, {owner, reinterpret_cast<const std::byte*>(owner->data())});
  const Tensor copy = lent;
  EXPECT_EQ(copy.bytes().data(), reinterpret_cast<const std::byte*>(owner->data()));
  lent.as<float>()[0] = 7;
  EXPECT_EQ((*owner)[0], 1);
  EXPECT_EQ(copy.as<float>()[0], 1);
  EXPECT_EQ(lent.as<float>()[0], 7);
  EXPECT_FALSE(lent == copy);
}

}  // namespace
}  // namespace shardwright
