// Convolutional modules: their parameters, states and operators have the names that are promised, each operator can
// be sharded, and every way of splitting gives the losses and running statistics of one device.

#include "shardwright/frontend/modules/convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardwright/base/random.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

const Type images{DType::f64, {8, 4, 8, 8}};
const Type labels{DType::i32, {8}};

/// All modules, with strides, pads, groups and biases.
struct Net {
  Conv2d conv1{"conv1", 4, 8, {.window = {.kernel = 3, .stride = 1, .pad = 1}}};
  BatchNorm2d bn1{"bn1", 8};
  Operator relu1 = relu("relu1");
  Operator maxpool = max_pool2d("maxpool", {.kernel = 3, .stride = 2, .pad = 1});
  Conv2d conv2{"conv2", 8, 8, {.window = {.kernel = {3, 1}, .pad = {1, 0}}, .groups = 2, .bias = false}};
  Operator avgpool = avg_pool2d("avgpool", {.kernel = 2, .stride = 2});
  Operator mean = global_avg_pool2d("mean");
  Dense fc{"fc", 8, 4};

  Traced operator()(Traced x) const { return fc(mean(avgpool(conv2(maxpool(relu1(bn1(conv1(x)))))))); }
};

TrainStep step_of(const Net& net, int devices) {
  auto forward = [&](Traced x, Traced y) { return LossAndAux{CrossEntropyLoss{}(net(x), y)}; };
  return TrainStep(forward, {{"image", images}, {"label", labels}}, momentum(0.1, 0.9),
                   {.devices = devices, .precision = DType::f64});
}

Tensor random_images(std::uint64_t step) {
  std::vector<double> v(static_cast<std::size_t>(element_count(images.shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = RandomStream(step, "x").normal(i);
  return make_tensor(images, v);
}

Tensor random_labels(std::uint64_t step) {
  std::vector<double> v(8);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(RandomStream(step, "y").below(i, 4));
  return make_tensor(labels, v);
}

std::vector<double> losses(TrainStep& step) {
  std::vector<double> out;
  for (std::uint64_t i = 0; i < 4; ++i) out.push_back(step(random_images(i), random_labels(i)));
  return out;
}

void expect_as_on_one_device(TrainStep step) {
  const Net whole;
  TrainStep alone = step_of(whole, 1);
  const auto want = losses(alone), have = losses(step);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-12) << "step " << i;
  for (const char* state : {"bn1.running_mean", "bn1.running_var"}) {
    const auto kept = to_doubles(alone.parameter(state)), moved = to_doubles(step.parameter(state));
    for (std::size_t c = 0; c < kept.size(); ++c) EXPECT_NEAR(moved[c], kept[c], 1e-12) << state;
  }
}

std::vector<std::vector<std::int64_t>> parts_of(const Plan& plan, const std::string& name) {
  for (const PlannedOperator& op : plan.stages[0].operators)
    if (op.name == name) return op.in;
  return {};
}

TEST(Convolution, names_are_those_of_the_modules) {
  const Net net;
  Trace trace(DType::f64);
  net(trace.input("image", images));
  std::vector<std::string> leaves, operators;
  for (const Node& node : trace.graph().nodes) {
    const std::string& name = trace.graph().value(node.results.front()).name;
    if (node.op->kind == OpKind::parameter || node.op->kind == OpKind::state) leaves.push_back(name);
    if (node.op->kind == OpKind::compute) operators.push_back(name);
  }
  std::sort(leaves.begin(), leaves.end());
  EXPECT_EQ(leaves,
            (std::vector<std::string>{"bn1.bias", "bn1.running_mean", "bn1.running_var", "bn1.weight",
                                      "conv1.bias", "conv1.weight", "conv2.weight", "fc.bias", "fc.weight"}));
  EXPECT_EQ(operators, (std::vector<std::string>{"conv1.conv2d", "conv1.expand", "conv1.add", "bn1.moments",
                                                 "bn1.running", "bn1.norm", "relu1", "maxpool",
                                                 "conv2.conv2d", "avgpool", "mean", "fc.matmul", "fc.add"}));
  EXPECT_EQ(trace.graph().value(trace.graph().find("conv2.weight")).type.shape, (Shape{8, 4, 3, 1}));
}

TEST(Convolution, images_split_by_height_and_width) {
  Net net;
  net.conv1.conv2d.shard({{1, 1, 4, 2}, {1, 1, 1, 1}});
  net.bn1.moments.shard({{1, 1, 4, 2}});
  net.maxpool.shard({{2, 1, 4, 1}});
  net.conv2.conv2d.shard({{2, 1, 2, 2}, {1, 1, 1, 1}});
  net.avgpool.shard({{4, 1, 2, 1}});
  net.mean.shard({{2, 1, 2, 2}});
  TrainStep step = step_of(net, 8);
  EXPECT_EQ(parts_of(step.plan(), "conv1.conv2d"),
            (std::vector<std::vector<std::int64_t>>{{1, 1, 4, 2}, {1, 1, 1, 1}}));
  EXPECT_EQ(parts_of(step.plan(), "maxpool"), (std::vector<std::vector<std::int64_t>>{{2, 1, 4, 1}}));
  expect_as_on_one_device(std::move(step));
}

TEST(Convolution, channels_split) {
  Net net;
  net.conv1.conv2d.shard({{1, 2, 1, 1}, {4, 2, 1, 1}});
  net.conv1.add.shard({{1, 4, 1, 1}, {4, 1, 1}});
  net.bn1.running.shard({{4}, {4}, {1, 4}});
  net.bn1.norm.shard({{2, 4, 1, 1}, {4}, {4}, {1, 4}});
  net.relu1.shard({{1, 8, 1, 1}});
  net.conv2.conv2d.shard({{4, 2, 1, 1}, {2, 1, 1, 1}});
  TrainStep step = step_of(net, 8);
  EXPECT_EQ(parts_of(step.plan(), "bn1.norm"),
            (std::vector<std::vector<std::int64_t>>{{2, 4, 1, 1}, {4}, {4}, {1, 4}}));
  EXPECT_EQ(step.plan().stages[0].layouts.at("bn1.running_mean"),
            step.plan().stages[0].layouts.at("bn1.running_var"));
  EXPECT_NE(step.plan().stages[0].layouts.at("bn1.running_mean"),
            "[-]");  // where its only reader computes it
  expect_as_on_one_device(std::move(step));
}

TEST(Convolution, running_statistics_move_towards_those_of_the_batch) {
  const BatchNorm2d bn("bn", 4, {.momentum = 0.25});
  auto forward = [&](const std::vector<Traced>& in) {
    return LossAndAux{in[0].trace->call("reduce_mean", {bn(in[0])})};
  };
  TrainStep step(forward, {{"image", images}}, sgd(0.1), {.precision = DType::f64});
  const Tensor x = random_images(3);
  step({x});
  const std::vector<double> values = to_doubles(x);
  const std::size_t pixels = 64, count = 8 * pixels;
  for (std::size_t c = 0; c < 4; ++c) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < count; ++i) sum += values[(i / pixels * 4 + c) * pixels + i % pixels];
    const double mean = sum / count;
    for (std::size_t i = 0; i < count; ++i)
      squares += std::pow(values[(i / pixels * 4 + c) * pixels + i % pixels] - mean, 2);
    EXPECT_NEAR(to_doubles(step.parameter("bn.running_mean"))[c], 0.25 * mean, 1e-12);
    EXPECT_NEAR(to_doubles(step.parameter("bn.running_var"))[c], 0.75 + 0.25 * squares / (count - 1), 1e-12);
  }
}

TEST(Convolution, a_norm_by_running_statistics_leaves_them_alone) {
  const BatchNorm2d bn("bn", 4, {.epsilon = 0.5, .uses_running = true});
  auto forward = [&](const std::vector<Traced>& in) {
    const Traced y = bn(in[0]);
    return LossAndAux{in[0].trace->call("reduce_mean", {y}), {y}};
  };
  TrainStep step(forward, {{"image", images}}, sgd(0), {.precision = DType::f64});
  const std::vector<double> mean{1, 2, 3, 4}, variance{0.5, 3.5, 1.5, 8.5}, gamma{1, -2, 3, 4},
      beta{0, 1, 2, 3};
  const Type type{DType::f64, {4}};
  step.set_parameter("bn.running_mean", make_tensor(type, mean));
  step.set_parameter("bn.running_var", make_tensor(type, variance));
  step.set_parameter("bn.weight", make_tensor(type, gamma));
  step.set_parameter("bn.bias", make_tensor(type, beta));
  const Tensor x = random_images(1);
  step({x});
  const auto in = to_doubles(x), out = to_doubles(step.aux()[0]);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t c = i / 64 % 4;
    EXPECT_NEAR(out[i], gamma[c] * (in[i] - mean[c]) / std::sqrt(variance[c] + 0.5) + beta[c], 1e-12);
  }
  EXPECT_EQ(to_doubles(step.parameter("bn.running_mean")), mean);
  EXPECT_EQ(to_doubles(step.parameter("bn.running_var")), variance);
}

void expect_error(const std::function<void()>& f, const std::string& message) {
  try {
    f();
    ADD_FAILURE() << "no error, wanted: " << message;
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), message);
  }
}

TEST(Convolution, errors_name_the_module) {
  expect_error([] { Conv2d("c", 6, 8, {.groups = 4}); }, "c: 4 groups do not divide 6 channels in and 8 out");
  const BatchNorm2d bn("bn", 4);
  Trace trace;
  const Traced x = trace.input("x", {DType::f32, {1, 4, 1, 1}});
  expect_error(
      [&] { bn(x); },
      "bn.norm: f32[1, 4, 1, 1] has one element per channel, but a batch norm that trains needs several");
  const BatchNorm2d other("bn", 4);
  const Traced y = trace.input("y", {DType::f32, {2, 4, 1, 1}});
  bn(y);
  expect_error(
      [&] { other(y); },
      "two parameters are called 'bn.running_mean'; give each its own name, or use one object to share it");
}

}  // namespace
}  // namespace shardwright
