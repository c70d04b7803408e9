#include "shardwright/runtime/data/dataset.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// Column `x` f32 [count, 2] = {i, i + 0.5}, column `label` u8 [count] = i.
Dataset counted(std::int64_t count) {
  std::vector<double> x;
  std::vector<double> label;
  for (std::int64_t i = 0; i < count; ++i) {
    x.insert(x.end(), {static_cast<double>(i), static_cast<double>(i) + 0.5});
    label.push_back(static_cast<double>(i));
  }
  return Dataset(
      {{"x", make_tensor({DType::f32, {count, 2}}, x)}, {"label", make_tensor({DType::u8, {count}}, label)}});
}

std::vector<double> labels_of_epoch(const Dataset& data, std::int64_t epoch) {
  std::vector<double> out;
  for (const Batch& batch : data.epoch(epoch)) {
    const auto labels = to_doubles(batch["label"]);
    out.insert(out.end(), labels.begin(), labels.end());
  }
  return out;
}

TEST(Dataset, gives_batches_in_order_and_drops_the_rest) {
  const Dataset data = counted(7).batch(3);
  EXPECT_EQ(data.batches_per_epoch(), 2);
  EXPECT_EQ(labels_of_epoch(data, 0), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(to_doubles(data.at_step(3)["x"]), (std::vector<double>{3, 3.5, 4, 4.5, 5, 5.5}));
}

TEST(Dataset, shuffles_differently_in_each_epoch_and_the_same_each_time) {
  const Dataset data = counted(100).shuffle(1).batch(10);
  const auto first = labels_of_epoch(data, 0);
  EXPECT_EQ(first, labels_of_epoch(data, 0));
  EXPECT_NE(first, labels_of_epoch(data, 1));
  EXPECT_NE(first, labels_of_epoch(counted(100).shuffle(2).batch(10), 0));
  EXPECT_FALSE(std::ranges::is_sorted(first));
  EXPECT_EQ(std::set<double>(first.begin(), first.end()).size(), 100U);
}

TEST(Dataset, keeps_columns_together_when_it_shuffles) {
  for (const Batch& batch : counted(20).shuffle(3).batch(4).epoch(5)) {
    const auto x = to_doubles(batch["x"]);
    const auto label = to_doubles(batch["label"]);
    for (std::size_t i = 0; i < label.size(); ++i) EXPECT_EQ(x[2 * i], label[i]);
  }
}

TEST(Dataset, every_order_is_a_permutation) {
  for (std::int64_t count = 1; count < 70; ++count) {
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < count; ++i) seen.insert(shuffled(i, count, 7, 0));
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), count);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

TEST(Dataset, every_place_is_as_likely_as_any_other) {
  constexpr std::int64_t count = 10;
  constexpr std::int64_t epochs = 2000;
  std::vector<std::int64_t> hits(count * count);
  for (std::int64_t e = 0; e < epochs; ++e)
    for (std::int64_t i = 0; i < count; ++i)
      ++hits[static_cast<std::size_t>(i * count + shuffled(i, count, 11, e))];
  // 200 expected, deviation 13.4
  EXPECT_GT(*std::ranges::min_element(hits), 200 - 6 * 14);
  EXPECT_LT(*std::ranges::max_element(hits), 200 + 6 * 14);
}

TEST(Dataset, transforms_images_as_the_seeds_do) {
  Mnist two{Tensor({DType::u8, {2, 28, 28, 1}}), Tensor({DType::u8, {2}})};
  two.images.bytes()[1] = std::byte{255};
  two.labels.bytes()[1] = std::byte{9};
  const std::string folder = scratch_folder();
  write_mnist(folder, MnistPart::train, two);
  const Dataset data = mnist_dataset(folder)
                           .map("image", {rescale(1 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw()})
                           .map("label", {type_cast(DType::i32)})
                           .batch(2);
  EXPECT_EQ(to_text(data.type("image")), "f32[2, 1, 28, 28]");
  EXPECT_EQ(to_text(data.type("label")), "i32[2]");
  const Batch batch = data.get(0, 0);
  EXPECT_EQ(batch["image"].type(), data.type("image"));
  EXPECT_FLOAT_EQ(batch["image"].as<float>()[0], -0.42421296F);
  EXPECT_FLOAT_EQ(batch["image"].as<float>()[1], 2.8214867F);
  EXPECT_EQ(batch["label"], make_tensor({DType::i32, {2}}, std::vector<double>{0, 9}));
}

TEST(Dataset, moves_channels_to_the_front_and_normalizes_each) {
  std::vector<double> values(1 * 2 * 2 * 3);
  std::iota(values.begin(), values.end(), 0);
  const Dataset data = Dataset({{"image", make_tensor({DType::u8, {1, 2, 2, 3}}, values)}})
                           .map("image", {normalize({0, 1, 2}, {1, 1, 0.5}), hwc_to_chw()})
                           .batch(1);
  EXPECT_EQ(to_doubles(data.get(0, 0)["image"]), (std::vector<double>{0, 3, 6, 9, 0, 3, 6, 9, 0, 6, 12, 18}));
}

TEST(Dataset, reshapes_samples) {
  const Dataset data = counted(4).map("x", {reshape({2, 1, 1})}).batch(2);
  EXPECT_EQ(to_text(data.type("x")), "f32[2, 2, 1, 1]");
  EXPECT_EQ(data.get(0, 1)["x"].type(), data.type("x"));
  EXPECT_EQ(to_doubles(data.get(0, 1)["x"]), (std::vector<double>{2, 2.5, 3, 3.5}));
}

TEST(Dataset, transforms_only_what_is_asked_for) {
  std::int64_t samples = 0;
  const Transform count = of_column(
      "count", [](const Type& t) -> SampleType { return t; },
      [&samples](Tensor t, Chance&) {
        ++samples;
        return t;
      });
  const Dataset data = counted(100).map("x", {count}).batch(10);
  EXPECT_EQ(samples, 0);
  data.get(0, 7);
  EXPECT_EQ(samples, 10);
}

TEST(Dataset, names_what_is_wrong) {
  const Dataset data = counted(8);
  const auto message = [](auto call) { return error_of(call); };
  EXPECT_EQ(message([&] { data.map("lable", {}); }),
            "dataset: has no column 'lable' (did you mean label?); it has label, x");
  EXPECT_EQ(message([&] { data.map("x", {hwc_to_chw()}); }),
            "column 'x': hwc_to_chw: samples are f32[2], must be [height, width, channels]");
  EXPECT_EQ(message([&] {
              data.map("x", {normalize({1, 2, 3}, {1, 1, 1})});
            }),
            "column 'x': normalize: 3 means for samples of f32[2]; must be 1, or 2 for the last dim");
  EXPECT_EQ(message([] {
              normalize({1}, {1, 2});
            }),
            "normalize: 1 means and 2 deviations, must be as many of each and at least one");
  EXPECT_EQ(message([] { normalize({1}, {0}); }), "normalize: deviation 0 must be above 0");
  EXPECT_EQ(message([&] { data.map("x", {reshape({3})}); }),
            "column 'x': reshape: samples of f32[2] have 2 elements, [3] has 3");
  EXPECT_EQ(message([&] { data.batch(9); }),
            "dataset: batch(9) is more than the 8 samples there are; choose a smaller batch");
  EXPECT_EQ(message([&] { data.batch(0); }), "dataset: batch(0) must be at least 1");
  EXPECT_EQ(message([&] { data.get(0, 0); }), "dataset: has no batches yet; call batch first");
  EXPECT_EQ(message([&] { data.batch(4).get(1, 2); }),
            "dataset: batch 2 of epoch 1 asked for; there are 2 batches");
  EXPECT_EQ(message([&] { data.batch(4).get(0, 0)["image"]; }),
            "batch has no column 'image'; it has label, x");
  EXPECT_EQ(message([] { Dataset({}); }), "dataset: has no columns");
  EXPECT_EQ(message([] {
              Dataset({{"a", Tensor({DType::u8, {3}})}, {"b", Tensor({DType::u8, {4}})}});
            }),
            "dataset: column 'b' has 4 samples, but 'a' has 3");
  EXPECT_EQ(message([] {
              Dataset({{"a", Tensor({DType::u8, {}})}});
            }),
            "dataset: column 'a' is a scalar; samples must lie along its first dim");
}

}  // namespace
}  // namespace shardwright
