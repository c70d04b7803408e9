// Networks written in C++ as the seeds write them: what is annotated reaches the plan, and every way of splitting
// gives the losses of one device.

#include "shardwright/frontend/train_step.h"

#include <gtest/gtest.h>

#include "shardwright/base/random.h"
#include "shardwright/frontend/modules.h"

namespace shardwright {
namespace {

const Type images{DType::f32, {16, 4, 6}};
const Type labels{DType::i32, {16}};

struct Net {
  Operator flatten1 = flatten("flatten");
  Dense dense1{"dense1", 24, 16};
  Operator relu1 = relu("relu1");
  Dense dense2{"dense2", 16, 8};
  Traced operator()(Traced x) const { return dense2(relu1(dense1(flatten1(x)))); }
};

Tensor random_images(std::uint64_t step) {
  std::vector<double> v(16 * 24);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = RandomStream(step, "x").normal(i);
  return make_tensor(images, v);
}

Tensor random_labels(std::uint64_t step) {
  std::vector<double> v(16);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(RandomStream(step, "y").below(i, 8));
  return make_tensor(labels, v);
}

TrainStep step_of(const Net& net, const TrainOptions& options) {
  auto forward = [&](Traced x, Traced y) {
    const Traced logits = net(x);
    return LossAndAux{CrossEntropyLoss{}(logits, y), {logits}};
  };
  return TrainStep(forward, {{"image", images}, {"label", labels}}, momentum(0.1, 0.9), options);
}

std::vector<double> losses(TrainStep step) {
  std::vector<double> out;
  for (std::uint64_t i = 0; i < 5; ++i) out.push_back(step(random_images(i), random_labels(i)));
  return out;
}

void expect_same(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << "step " << i;
}

TEST(TrainStep, annotations_by_parts_reach_the_plan_and_keep_the_losses) {
  Net net;
  net.dense1.matmul.shard({{2, 4}, {4, 1}});
  TrainStep step = step_of(net, {.devices = 8});
  EXPECT_EQ(step.plan().stages[0].operators[1].in, (std::vector<std::vector<std::int64_t>>{{2, 4}, {4, 1}}));
  expect_same(losses(std::move(step)), losses(step_of(Net{}, {})));
}

TEST(TrainStep, annotations_by_layout_with_a_scattered_result) {
  Net net;
  const DeviceLayout layout({2, 2, 2}, {"dp", "sp", "mp"});
  net.dense1.matmul.shard({layout("mp", {"sp", "dp"}), layout({"sp", "dp"}, "None")},
                          {layout({"mp", "sp", "dp"}, "None")});
  TrainStep step = step_of(net, {.devices = 8});
  EXPECT_EQ(step.plan().stages[0].operators[1].out, "[mp.sp.dp, -]");
  expect_same(losses(std::move(step)), losses(step_of(Net{}, {})));
}

TEST(TrainStep, data_by_layout) {
  const DeviceLayout layout({4, 2}, {"dp", "tp"});
  TrainStep step =
      step_of(Net{}, {.devices = 8, .dataset_layouts = {layout("dp", "None", "tp"), layout("dp")}});
  EXPECT_EQ(step.plan().stages[0].layouts.at("image"), "[dp, -, tp]");
  expect_same(losses(std::move(step)), losses(step_of(Net{}, {})));
}

TEST(TrainStep, settings_of_the_search_reach_it) {
  Net net;
  net.dense1.matmul.shard({{2, 1}, {1, 1}});
  EXPECT_NO_THROW(step_of(net, {.devices = 4}));
  EXPECT_THROW(step_of(net, {.devices = 4, .search_options = {.fully_use_devices = true}}), Error);
  EXPECT_NO_THROW(step_of(net, {.devices = 4, .search_options = {.memory_cap = 1 << 20}}));
  EXPECT_THROW(step_of(net, {.devices = 4, .search_options = {.memory_cap = 1 << 10}}), Infeasible);
}

TEST(TrainStep, which_collectives_run_as_one_reaches_the_plan_and_keeps_the_losses) {
  Net net;
  net.dense2.weight.comm_fusion = 3;
  const TrainOptions all{.devices = 2, .parallel = Parallel::data_parallel};
  TrainOptions by_numbers = all, by_index = all, none = all;
  by_numbers.fusion_numbers = {{"dense1", 3}, {"dense1.bias", 0}};
  by_index.all_reduce_fusion_config = {1, 2};
  none.settings.comm_fusion = parse_comm_fusion("none");
  TrainStep step = step_of(net, by_numbers);
  EXPECT_EQ(step.plan().settings.comm_fusion.parameters,
            (std::map<std::string, int>{{"dense1.bias", 0}, {"dense1.weight", 3}, {"dense2.weight", 3}}));
  const std::vector<double> want = losses(step_of(Net{}, none));
  EXPECT_EQ(losses(std::move(step)), want);
  TrainStep indexed = step_of(Net{}, by_index);
  EXPECT_EQ(to_text(indexed.plan().settings.comm_fusion),
            "all_reduce=index:1,2;all_gather=auto;reduce_scatter=auto");
  EXPECT_EQ(losses(std::move(indexed)), want);
  by_index.settings.comm_fusion = parse_comm_fusion("none");
  EXPECT_THROW(step_of(Net{}, by_index), Error);
  by_index.settings.comm_fusion = {};
  by_index.all_reduce_fusion_config = {2, 1};
  EXPECT_THROW(step_of(Net{}, by_index), Error);
}

TEST(TrainStep, auxiliary_values_are_whole) {
  TrainStep step = step_of(Net{}, {.devices = 4, .parallel = Parallel::data_parallel});
  step(random_images(0), random_labels(0));
  ASSERT_EQ(step.aux().size(), 1U);
  EXPECT_EQ(step.aux()[0].shape(), (Shape{16, 8}));
}

TEST(TrainStep, an_operator_without_a_traced_operand_is_refused) {
  const Parameter w{"w", {2, 2}, zeros()};
  EXPECT_THROW(matmul("m")(w, w), Error);
}

TEST(TrainStep, two_parameters_of_one_name_are_refused) {
  auto forward = [&](Traced x, Traced) {
    const Parameter a{"w", {6, 2}, normal()}, b{"w", {2, 2}, normal()};
    return LossAndAux{MeanSquaredError{}(matmul("m2")(matmul("m1")(x, a), b), x)};
  };
  EXPECT_THROW(TrainStep(forward, {{"x", {DType::f32, {4, 6}}}, {"y", labels}}, sgd(0.1)), Error);
}

TEST(DeviceLayout, refuses_what_no_layout_can_be) {
  EXPECT_THROW(DeviceLayout({2, 2}, {"a"}), Error);
  EXPECT_THROW(DeviceLayout({2, 2}, {"a", "a"}), Error);
  EXPECT_THROW(DeviceLayout({2, 2}, {"a", "None"}), Error);
  EXPECT_THROW(DeviceLayout({2, 2}, {"a", "b"})("c", "None"), Error);
  EXPECT_THROW(DeviceLayout({2, 2}, {"a", "b"})("a", "a"), Error);
}

}  // namespace
}  // namespace shardwright
