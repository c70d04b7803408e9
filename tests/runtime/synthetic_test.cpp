#include "shardwright/runtime/synthetic.h"

#include <cmath>
#include <map>
#include <set>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

SyntheticTask images() {
  return {.inputs = {{"input", {DType::f32, {32, 20}}}}, .label_type = {DType::i32, {32}}};
}

TEST(Synthetic, is_a_function_of_seed_and_step) {
  const SyntheticData data(images());
  const Batch third = data.at_step(3);
  data.at_step(9);
  EXPECT_EQ(data.at_step(3).columns, third.columns);
  EXPECT_NE(data.at_step(4).columns, third.columns);
  SyntheticTask other = images();
  other.seed = 2;
  EXPECT_NE(SyntheticData(other).at_step(3).columns, third.columns);
}

TEST(Synthetic, has_the_types_asked_for) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Type input{dtype, {4, 3, 8, 8}};
    const Batch batch =
        SyntheticData({.inputs = {{"image", input}}, .label_type = {DType::i64, {4}}}).at_step(0);
    EXPECT_EQ(batch["image"].type(), input);
    EXPECT_EQ(to_text(batch["label"].type()), "i64[4]");
  }
}

TEST(Synthetic, inputs_of_a_class_gather_around_its_prototype) {
  SyntheticTask task = images();
  task.inputs["input"].shape = {1000, 20};
  task.label_type.shape = {1000};
  const Batch batch = SyntheticData(task).at_step(0);
  const auto x = batch["input"].as<float>();
  const auto label = batch["label"].as<std::int32_t>();
  // Nearest class mean: the means come from the first half, the second half is classified.
  std::vector<std::vector<double>> mean(10, std::vector<double>(20));
  std::vector<double> count(10);
  for (std::size_t r = 0; r < 500; ++r) ++count[static_cast<std::size_t>(label[r])];
  for (std::size_t i = 0; i < 500 * 20; ++i) {
    const auto c = static_cast<std::size_t>(label[i / 20]);
    mean[c][i % 20] += x[i] / count[c];
  }
  int right = 0;
  for (std::size_t r = 500; r < 1000; ++r) {
    std::map<double, std::size_t> by_distance;
    for (std::size_t c = 0; c < 10; ++c) {
      double distance = 0;
      for (std::size_t i = 0; i < 20; ++i) distance += std::pow(x[r * 20 + i] - mean[c][i], 2);
      by_distance[distance] = c;
    }
    right += by_distance.begin()->second == static_cast<std::size_t>(label[r]);
  }
  EXPECT_GT(right, 300);
}

TEST(Synthetic, noise_has_mean_zero_and_deviation_near_one) {
  const Batch batch =
      SyntheticData({.inputs = {{"x", {DType::f64, {1000, 10}}}}, .label_type = {DType::i32, {1000}}})
          .at_step(1);
  double sum = 0;
  double squares = 0;
  for (const double x : batch["x"].as<double>()) {
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 10000, 0, 0.15);
  EXPECT_NEAR(std::sqrt(squares / 10000), std::sqrt(1 + 0.36), 0.1);
}

TEST(Synthetic, a_real_label_is_a_linear_map_of_the_input) {
  // With as many weights as elements of one row, least squares by gradient descent explains the label.
  const SyntheticData data({.inputs = {{"x", {DType::f64, {64, 6}}}}, .label_type = {DType::f64, {64, 1}}});
  std::vector<double> weight(6);
  double first = 0;
  double last = 0;
  for (std::int64_t step = 0; step < 200; ++step) {
    const Batch batch = data.at_step(step);
    const auto x = batch["x"].as<double>();
    std::vector<double> gradient(6);
    last = 0;
    for (std::size_t r = 0; r < 64; ++r) {
      double difference = -batch["label"].as<double>()[r];
      for (std::size_t i = 0; i < 6; ++i) difference += weight[i] * x[r * 6 + i];
      for (std::size_t i = 0; i < 6; ++i) gradient[i] += difference * x[r * 6 + i] / 64;
      last += difference * difference / 64;
    }
    for (std::size_t i = 0; i < 6; ++i) weight[i] -= 0.1 * gradient[i];
    if (step == 0) first = last;
  }
  EXPECT_GT(first, 0.1);
  EXPECT_LT(last, 0.02);  // the noise that was added has the variance 0.01
}

TEST(Synthetic, an_element_of_a_sequence_mostly_decides_the_next) {
  const Type tokens{DType::i32, {8, 32}};
  const Batch batch =
      SyntheticData({.inputs = {{"tokens", tokens}}, .label_type = tokens, .classes = 11}).at_step(2);
  const auto token = batch["tokens"].as<std::int32_t>();
  const auto next = batch["label"].as<std::int32_t>();
  std::map<std::int32_t, std::map<std::int32_t, int>> follows;
  for (std::size_t i = 0; i < token.size(); ++i) {
    EXPECT_TRUE(token[i] >= 0 && token[i] < 11 && next[i] >= 0 && next[i] < 11);
    if (i % 32 < 31) {
      EXPECT_EQ(next[i], token[i + 1]);
    }
    ++follows[token[i]][next[i]];
  }
  int explained = 0;
  for (const auto& [from, counts] : follows) {
    int most = 0;
    for (const auto& [to, count] : counts) most = std::max(most, count);
    explained += most;
  }
  EXPECT_GT(explained, 256 * 8 / 10);
}

TEST(Synthetic, integer_inputs_tell_the_class_and_stay_in_their_vocabulary) {
  SyntheticTask task{
      .inputs = {{"ids", {DType::i64, {50, 4}}}}, .label_type = {DType::i32, {50}}, .classes = 2};
  task.vocabulary["ids"] = 1000;
  const Batch batch = SyntheticData(task).at_step(0);
  std::set<std::int64_t> seen;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::int64_t id = batch["ids"].as<std::int64_t>()[i];
    EXPECT_TRUE(id >= 0 && id < 1000);
    seen.insert(id);
    if (i % 4 % 2 == 0) {
      EXPECT_EQ(id % 2, batch["label"].as<std::int32_t>()[i / 4]);
    }
  }
  EXPECT_GT(seen.size(), 100U);
}

TEST(Synthetic, a_label_of_shares_is_0_or_1) {
  const Batch batch = SyntheticData({.inputs = {{"x", {DType::f32, {50, 3}}}},
                                     .label_type = {DType::f32, {50, 2}},
                                     .label_is_share = true})
                          .at_step(0);
  float ones = 0;
  for (const float label : batch["label"].as<float>()) {
    EXPECT_TRUE(label == 0 || label == 1) << label;
    ones += label;
  }
  EXPECT_TRUE(ones > 20 && ones < 80) << ones;
}

TEST(Synthetic, integer_inputs_of_a_real_label_do_not_have_to_be_ordered) {
  SyntheticTask task{.inputs = {{"ids", {DType::i32, {50, 2}}}, {"x", {DType::f32, {50, 3}}}},
                     .label_type = {DType::f32, {50}}};
  task.vocabulary["ids"] = 5;
  const Batch batch = SyntheticData(task).at_step(0);
  for (const float label : batch["label"].as<float>()) EXPECT_LT(std::abs(label), 10);
}

TEST(Synthetic, labels_of_another_length_than_the_inputs_are_a_sequence_by_themselves) {
  SyntheticTask task{.inputs = {{"frames", {DType::f32, {40, 6, 8}}}, {"ids", {DType::i32, {40, 7}}}},
                     .label_type = {DType::i32, {40, 12}},
                     .classes = 50};
  task.vocabulary["ids"] = 5;
  const Batch batch = SyntheticData(task).at_step(3);
  EXPECT_EQ(batch["frames"].type(), (Type{DType::f32, {40, 6, 8}}));
  for (const int id : batch["ids"].as<std::int32_t>()) EXPECT_TRUE(0 <= id && id < 5) << id;
  // What follows from the element before is the same for all but one in ten.
  std::map<int, std::map<int, int>> counts;
  const auto label = batch["label"].as<std::int32_t>();
  for (std::size_t i = 1; i < label.size(); ++i)
    if (i % 12 != 0) ++counts[label[i - 1]][label[i]];
  int follow = 0, all = 0;
  for (const auto& [from, next] : counts) {
    int most = 0;
    for (const auto& [to, count] : next) {
      all += count;
      most = std::max(most, count);
    }
    follow += most;
  }
  EXPECT_GT(follow, all * 8 / 10);
}

TEST(Synthetic, names_types_that_do_not_fit) {
  const auto message = [](SyntheticTask task) { return error_of([&] { SyntheticData{task}; }); };
  SyntheticTask task = images();
  task.label_type.shape = {16};
  EXPECT_EQ(message(task),
            "synthetic data: input 'input' is f32[32, 20], its first dim must be the label's batch of 16");
  task.label_type.shape = {};
  EXPECT_EQ(message(task), "synthetic data: label 'label' is i32[], must be numbers of shape [batch, ...]");
  task = images();
  task.classes = 0;
  EXPECT_EQ(message(task), "synthetic data: 0 classes, must be at least 1");
  task = images();
  task.inputs.clear();
  EXPECT_EQ(message(task), "synthetic data: there are no inputs");
  task = images();
  task.inputs["input"].dtype = DType::boolean;
  EXPECT_EQ(message(task), "synthetic data: input 'input' is bool[32, 20], must be a number");
  task = images();
  task.label_type.dtype = DType::u8;
  task.classes = 257;
  EXPECT_EQ(message(task), "synthetic data: 257 classes do not fit in label 'label' of u8[32]");
  task = images();
  task.vocabulary["input"] = 0;
  EXPECT_EQ(message(task), "synthetic data: vocabulary of 'input' is 0, must be at least 1");
}

}  // namespace
}  // namespace shardwright
