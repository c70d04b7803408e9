// Networks written in C++ for batches of several sizes: the losses of batches that are all filled up to the longest.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/random.h"
#include "shardwright/frontend/fit.h"
#include "shardwright/frontend/label_weights.h"
#include "shardwright/frontend/modules.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

constexpr std::int64_t batch = 4, vocabulary = 32;
using Lengths = std::vector<std::int64_t>;

DecoderOptions decoder() {
  return {.layers = 2,
          .hidden = 16,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 32,
          .vocabulary = vocabulary,
          .sequence = 16};
}

InputTypes inputs_of(std::int64_t length) {
  return {{"input", {DType::i32, {batch, length}}},
          {"label", {DType::i32, {batch, length}}},
          {"weights", {DType::f32, {batch}}}};
}

TrainStep step_of(const Lengths& lengths, const TrainOptions& options) {
  const Decoder net(decoder());
  const ForwardFunction forward = [&](const std::vector<Traced>& in) {
    return LossAndAux{AskedCrossEntropyLoss{}(net(in[0]), in[1], in[2])};
  };
  std::vector<InputTypes> sizes;
  for (auto length = lengths.rbegin(); length != lengths.rend(); ++length)
    sizes.push_back(inputs_of(*length));
  return TrainStep::of_sizes(forward, sizes, adamw(0.05), options);
}

LengthBuckets buckets_of(const Lengths& lengths) {
  MarkedTokens tokens;
  const RandomStream random(3, "documents");
  for (std::int64_t document = 0; document < 30; ++document) {
    const std::int64_t length = 2 + random.below(static_cast<std::size_t>(document), lengths.back());
    for (std::int64_t i = 0; i < length; ++i) {
      const std::size_t n = tokens.ids.size();
      tokens.ids.push_back(static_cast<std::int32_t>(random.below(100 + n, vocabulary)));
      tokens.marks.push_back({.begins = i == 0});
    }
  }
  return {std::move(tokens), {.lengths = lengths, .batch = batch, .seed = 5}};
}

/// The same batches, filled up to the longest.
TrainingData filled_up(const Lengths& lengths) {
  TrainingData data = training_data(buckets_of(lengths));
  data.lengths.clear();
  data.batch = [own = data.batch, longest = lengths.back()](std::int64_t step) {
    StepBatch out;
    for (const auto& [name, column] : own(step)) {
      const std::int64_t length = column.shape()[1];
      Tensor all({DType::i32, {batch, longest}});
      std::ranges::fill(all.as<std::int32_t>(), name == "label" ? static_cast<std::int32_t>(not_asked) : 0);
      for (std::int64_t i = 0; i < batch * length; ++i)
        all.as<std::int32_t>()[static_cast<std::size_t>(i / length * longest + i % length)] =
            column.as<std::int32_t>()[static_cast<std::size_t>(i)];
      out.emplace(name, std::move(all));
    }
    out.emplace("weights", label_weights(out.at("label"), batch, DType::f32));
    return out;
  };
  return data;
}

std::vector<double> losses(TrainStep step, const TrainingData& data, std::int64_t steps) {
  std::vector<double> out;
  fit(step, data, {.steps = steps}, [&](const TrainingEvent& event) {
    if (const auto* done = std::get_if<StepDone>(&event)) out.push_back(done->told.loss);
    return Then::goes_on;
  });
  return out;
}

TEST(TrainStepOfSizes, has_the_losses_of_the_longest) {
  const Lengths lengths{4, 8, 16};
  const TrainingData data = training_data(buckets_of(lengths), {.weights = "weights"});
  const std::int64_t steps = data.batches_per_epoch + 3;
  const TrainOptions one;
  const std::vector<double> want = losses(step_of({16}, one), filled_up(lengths), steps);
  TrainOptions two = one, four = one, recursive = one;
  two.devices = 2;
  four.devices = 4, four.settings.optimizer_parallel = {.level = 1, .threshold = 0};
  recursive.devices = 4, recursive.search = "recursive";
  for (const TrainOptions& options : {one, two, four, recursive}) {
    const std::vector<double> found = losses(step_of(lengths, options), data, steps);
    ASSERT_EQ(found.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(found[i], want[i], 1e-5 * want[i]) << "step " << i;
  }
}

TEST(TrainStepOfSizes, tells_of_batches_that_it_does_not_take) {
  TrainStep step = step_of({4, 8}, {});
  const TrainingData other = training_data(buckets_of({6}), {.weights = "weights"});
  try {
    step.run(other.batch(0));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "a batch of input [4, 6], label [4, 6], weights [4], but the step takes input [4, 8] or [4, 4], "
        "label [4, 8] or [4, 4], weights [4] or [4]");
  }
}

TEST(BucketColumns, say_what_is_asked_for) {
  const TrainingData data = training_data(buckets_of({4, 8}), {.mask = "mask"});
  const StepBatch columns = data.batch(1);
  ASSERT_EQ(columns.size(), 3U);
  EXPECT_EQ(data.lengths, "4,8");
  const auto mask = columns.at("mask").as<float>();
  const auto label = columns.at("label").as<std::int32_t>();
  for (std::size_t i = 0; i < mask.size(); ++i) EXPECT_EQ(mask[i], label[i] == -100 ? 0.0F : 1.0F);
}

}  // namespace
}  // namespace shardwright
