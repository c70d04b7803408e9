// Networks outside of training: what takes the place of dropout and of a batch's own statistics.

#include "shardwright/frontend/inference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/predict.h"
#include "shardwright/graph/builder.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/checkpoint/saver.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

std::vector<std::string> operators_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes) out.push_back(node.op->name);
  return out;
}

TEST(Inference, of_dropout_keeps_everything) {
  Trace trace;
  const Traced x = trace.input("input", {DType::f32, {4, 6}});
  const Traced y = dropout(dropout(trace.call("relu", {x}), "a", 0.5), "b", 0.25);
  const Traced loss = trace.call("reduce_mean", {y});
  const Model model = finish_model(trace, loss, y);
  const Model asked = inference_of(model, false);
  EXPECT_EQ(operators_of(asked.graph), (std::vector<std::string>{"input", "relu"}));
  EXPECT_EQ(operators_of(inference_of(model, true).graph),
            (std::vector<std::string>{"input", "relu", "reduce_mean"}));
}

/// ResNet-18 for tiny images: its batch norms' running statistics move while it trains.
Model resnet(int batch) {
  return build_model(fmt::format("resnet18:image=16,width=4,classes=5,batch={}", batch),
                     {.precision = {DType::f64}, .loss = ""});
}

std::map<std::string, Tensor> batch_of(const Model& model, std::uint64_t seed) {
  std::map<std::string, Tensor> out;
  for (const Node& node : model.graph.nodes) {
    if (node.op->kind != OpKind::input) continue;
    const Value& v = model.graph.value(node.results[0]);
    Tensor t(v.type);
    if (v.name == "label") {
      for (auto& x : t.as<std::int32_t>()) x = static_cast<std::int32_t>(seed++ % 5);
    } else {
      std::uint64_t i = 0;
      for (double& x : t.as<double>()) x = std::sin(static_cast<double>(seed * 1000 + i++));
    }
    out[v.name] = std::move(t);
  }
  return out;
}

TEST(Inference, of_batch_norms_does_not_depend_on_the_batch) {
  const std::string folder = scratch_folder();
  Model trained = resnet(8);
  const Model network = trained;
  add_train_step(trained.graph, trained.loss, {"sgd", {{"rate", 0.05}}});
  const Plan alone = make_plan(trained.graph, {.parallel = Parallel::stand_alone});
  Session session(compile_pipeline(trained.graph, alone));
  for (std::uint64_t step = 0; step < 4; ++step) session.step(batch_of(network, step));
  CheckpointSaver saver(session, {.folder = folder, .plan = ""});
  saver.save({.model = "resnet", .step = 4});
  ASSERT_EQ(saver.wait().front().failure, "");

  const auto predictions = [&](int batch, int devices) {
    const Model asked = inference_of(resnet(batch), false);
    const bool is_alone = devices == 1;
    const Plan plan =
        make_plan(asked.graph, {.devices = devices,
                                .parallel = is_alone ? Parallel::stand_alone : Parallel::auto_parallel,
                                .search = is_alone ? "" : "recursive"});
    Session own(compile_pipeline(asked.graph, plan));
    load(own, open_source(folder), Restored::network);
    std::map<std::string, Tensor> input = batch_of(resnet(8), 9);
    input.erase("label");
    Tensor first({DType::f64, {batch, 3, 16, 16}});
    std::copy_n(input.at("input").bytes().begin(), first.bytes().size(), first.bytes().begin());
    return to_doubles(own.step({{"input", first}})[0]);
  };
  const std::vector<double> of_eight = predictions(8, 1), of_four = predictions(4, 1),
                            on_four = predictions(8, 4);
  ASSERT_EQ(of_eight.size(), 40U);
  for (std::size_t i = 0; i < of_four.size(); ++i)
    EXPECT_NEAR(of_four[i], of_eight[i], 1e-10) << "a sample's scores hang on its neighbours";
  for (std::size_t i = 0; i < of_eight.size(); ++i) EXPECT_NEAR(on_four[i], of_eight[i], 1e-10);
}

/// One batch norm alone: y = gamma (x - mean) / sqrt(variance + epsilon) + beta by hand.
TEST(Inference, of_a_batch_norm_is_its_formula) {
  const Model network = resnet(8);
  const auto operators = operators_of(inference_of(network, false).graph);
  EXPECT_EQ(std::ranges::count(operators, "batch_moments"), 0);
  EXPECT_EQ(std::ranges::count(operators, "running_moments"), 0);
  EXPECT_EQ(std::ranges::count(operators, "known_moments"), std::ranges::count(operators, "batch_norm"));
  EXPECT_GT(std::ranges::count(operators, "batch_norm"), 15);

  Graph graph;
  Builder builder(graph);
  const auto leaf = [&](const char* name, Shape shape) {
    return builder.leaf(OpKind::input, name, {DType::f64, std::move(shape)});
  };
  const ValueId x = leaf("x", {2, 3}), gamma = leaf("gamma", {3}), beta = leaf("beta", {3});
  const ValueId moments = builder.call("known_moments", {leaf("mean", {3}), leaf("variance", {3})});
  graph.outputs = {builder.call("batch_norm", {x, gamma, beta, moments}, {{"epsilon", 0.25}})};
  Session session(compile_pipeline(graph, make_plan(graph, {.parallel = Parallel::stand_alone})));
  const auto tensor = [](Shape shape, std::vector<double> values) {
    return make_tensor({DType::f64, std::move(shape)}, values);
  };
  const std::vector<double> xs{1, 2, 3, -4, 5, 60}, g{2, 3, 4}, b{0.5, 0, -1}, m{1, -2, 30}, v{0.75, 2, 12};
  const std::vector<double> y = to_doubles(session.step({{"x", tensor({2, 3}, xs)},
                                                         {"gamma", tensor({3}, g)},
                                                         {"beta", tensor({3}, b)},
                                                         {"mean", tensor({3}, m)},
                                                         {"variance", tensor({3}, v)}})[0]);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::size_t c = i % 3;
    EXPECT_NEAR(y[i], g[c] * (xs[i] - m[c]) / std::sqrt(v[c] + 0.25) + b[c], 1e-12);
  }
}

TEST(Predict, says_how_parameters_lie_and_merges_what_was_sliced) {
  PredictStep predict(
      [](const std::vector<Traced>& in) {
        Trace& trace = *in[0].trace;
        const Traced w = trace.parameter({.name = "w", .shape = {8, 6}, .initializer = {"normal"}});
        return std::vector{trace.call("matmul", {in[0], w})};
      },
      {{"x", {DType::f32, {4, 8}}}}, {.devices = 2});
  const ParameterLayouts layouts = predict.infer_predict_layout();
  ASSERT_TRUE(layouts.contains("w"));
  EXPECT_EQ(predict({Tensor({DType::f32, {4, 8}})})[0].shape(), (Shape{4, 6}));

  // A device matrix of 2 x 2 whose last axis cuts dim 0 and whose first cuts dim 1.
  const ParameterLayout layout{.device_matrix = {2, 2}, .tensor_map = {{0}, {1}}};
  std::vector<Tensor> slices;
  for (double first : {0.0, 20.0, 2.0, 22.0}) {
    const std::vector<double> values{first, first + 1, first + 10, first + 11};
    slices.push_back(make_tensor({DType::f32, {2, 2}}, values));
  }
  const Tensor whole = merge_sliced_parameter(slices, layout);
  EXPECT_EQ(whole.shape(), (Shape{4, 4}));
  EXPECT_EQ(to_doubles(whole),
            (std::vector<double>{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33}));
  EXPECT_EQ(merge_sliced_parameter(slices).shape(), (Shape{8, 2}));
  slices.pop_back();
  EXPECT_EQ(error_of([&] { merge_sliced_parameter(slices, layout); }),
            "there are 3 slices, but the layout is of 4 ranks");
  EXPECT_EQ(error_of([&] { merge_sliced_parameter({}); }), "there are no slices to merge");
}

}  // namespace
}  // namespace shardwright
