// Dropout's masks: their rate, what they depend on, and that training does not depend on how it is split.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/random.h"
#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/train_step.h"
#include "tests/support/compare.h"
#include "tests/support/evaluate.h"

namespace shardwright {
namespace {

std::vector<double> dropped(std::int64_t count, double step, const Attributes& attributes) {
  const std::vector<double> ones(static_cast<std::size_t>(count), 1);
  return to_doubles(evaluate(
      find_op("dropout"),
      std::vector{make_tensor({DType::f32, {count}}, ones), make_tensor({DType::f32, {}}, std::vector{step})},
      attributes)[0]);
}

/// The share of elements that two masks have alike.
double alike(const std::vector<double>& a, const std::vector<double>& b) {
  double same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i];
  return same / static_cast<double>(a.size());
}

TEST(Dropout, keeps_the_share_it_should_and_the_mean) {
  for (double rate : {0.0, 0.1, 0.5, 0.9}) {
    const std::vector<double> y = dropped(100000, 0, {{"rate", rate}});
    const auto zeros = static_cast<double>(std::count(y.begin(), y.end(), 0.0));
    EXPECT_NEAR(zeros / 100000, rate, 0.005);  // three standard deviations
    for (double v : y) ASSERT_TRUE(v == 0 || std::abs(v - 1 / (1 - rate)) < 1e-5) << v;
  }
}

TEST(Dropout, has_another_mask_for_every_step_name_and_seed) {
  const Attributes base{{"rate", 0.5}, {"name", std::string("a")}};
  const std::vector<double> mask = dropped(10000, 3, base);
  EXPECT_EQ(dropped(10000, 3, base), mask);
  EXPECT_NEAR(alike(dropped(10000, 4, base), mask), 0.5, 0.03);
  EXPECT_NEAR(alike(dropped(10000, 3, {{"rate", 0.5}, {"name", std::string("b")}}), mask), 0.5, 0.03);
  EXPECT_NEAR(
      alike(dropped(10000, 3, {{"rate", 0.5}, {"name", std::string("a")}, {"seed", std::int64_t{1}}}), mask),
      0.5, 0.03);
}

/// In the second micro-batch of two, of step 3, are the elements behind those of the first.
TEST(Dropout, drops_of_a_micro_batch_what_it_drops_there_of_the_batch) {
  const Attributes whole{{"rate", 0.5}, {"name", std::string("a")}};
  Attributes half = whole;
  half.set("micro_batches", std::int64_t{2});
  std::vector<double> both = dropped(500, 6, half);
  const std::vector<double> second = dropped(500, 7, half);
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(both, dropped(1000, 3, whole));
}

// ---- in training ----

const Type x_type{DType::f64, {12, 8}}, y_type{DType::f64, {12, 4}};

Tensor reals(const Type& type, std::uint64_t seed) {
  std::vector<double> v(static_cast<std::size_t>(element_count(type.shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = RandomStream(seed, "values").normal(i);
  return make_tensor(type, v);
}

struct Net {
  Dense dense1{"dense1", 8, 12};
  Dense dense2{"dense2", 12, 4};

  std::vector<double> losses(const OptimizerChoice& optimizer, const TrainOptions& options) const {
    const auto forward = [&](Traced x, Traced y) {
      const Traced hidden = dropout(dense1(dropout(x, "drop1", 0.25)), "drop2", 0.5);
      return LossAndAux{MeanSquaredError{}(dense2(hidden), y)};
    };
    TrainStep step(forward, {{"x", x_type}, {"y", y_type}}, optimizer, options);
    std::vector<double> out;
    for (int i = 0; i < 4; ++i) out.push_back(step(reals(x_type, 1), reals(y_type, 2)));
    return out;
  }
};

/// One count serves adam and the masks.
TEST(Dropout, gives_one_device_s_losses_on_four) {
  for (const OptimizerChoice& optimizer : {sgd(0.05), adam(0.01)}) {
    const std::vector<double> whole = Net{}.losses(optimizer, {.precision = DType::f64});
    Net net;
    net.dense1.matmul.shard({{1, 2}, {2, 2}});  // by the summed dim and the columns
    for (const std::vector<double>& split :
         {net.losses(optimizer, {.devices = 4, .precision = DType::f64}),
          Net{}.losses(optimizer,
                       {.devices = 4, .parallel = Parallel::data_parallel, .precision = DType::f64})})
      for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(split[i], whole[i], 1e-9) << "step " << i;
  }
}

/// With a rate of learning of 0 only the masks change.
TEST(Dropout, changes_its_mask_from_step_to_step) {
  const std::vector<double> losses = Net{}.losses(sgd(0), {.precision = DType::f64});
  EXPECT_NE(losses[0], losses[1]);
  EXPECT_NE(losses[1], losses[2]);
}

}  // namespace
}  // namespace shardwright
