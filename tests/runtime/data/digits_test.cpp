#include "shardwright/runtime/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "shardwright/runtime/data/dataset.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// Softmax regression: ten linear functions of the pixels, trained with plain SGD.
class LinearClassifier {
 public:
  void train(const Tensor& images, const Tensor& labels, float rate) {
    for (std::int64_t r = 0; r < labels.size(); ++r) {
      const auto x = row(images, r);
      std::array<float, 10> y = scores(x);
      const float most = *std::ranges::max_element(y);
      float sum = 0;
      for (float& v : y) sum += v = std::exp(v - most);
      for (std::size_t c = 0; c < 10; ++c) {
        const bool is_label = labels.as<std::uint8_t>()[static_cast<std::size_t>(r)] == c;
        const float gradient = y[c] / sum - (is_label ? 1.0F : 0.0F);
        for (std::size_t i = 0; i < 784; ++i) weights_[c][i] -= rate * gradient * x[i];
      }
    }
  }

  double share_right(const Tensor& images, const Tensor& labels) const {
    std::int64_t right = 0;
    for (std::int64_t r = 0; r < labels.size(); ++r) {
      const auto y = scores(row(images, r));
      right +=
          std::ranges::max_element(y) - y.begin() == labels.as<std::uint8_t>()[static_cast<std::size_t>(r)];
    }
    return static_cast<double>(right) / static_cast<double>(labels.size());
  }

 private:
  static std::span<const float> row(const Tensor& images, std::int64_t r) {
    return images.as<float>().subspan(static_cast<std::size_t>(r) * 784, 784);
  }
  std::array<float, 10> scores(std::span<const float> x) const {
    std::array<float, 10> y{};
    for (std::size_t c = 0; c < 10; ++c)
      for (std::size_t i = 0; i < 784; ++i) y[c] += weights_[c][i] * x[i];
    return y;
  }
  std::array<std::array<float, 784>, 10> weights_{};
};

TEST(Digits, can_be_learned_by_a_linear_softmax) {
  const auto part_of = [](MnistPart part, std::int64_t count) {
    Mnist drawn = draw_digits(count, 1, part);
    return Dataset({{"image", drawn.images}, {"label", drawn.labels}})
        .map("image", {rescale(1 / 255.0, 0)})
        .batch(count)
        .get(0, 0);
  };
  const Batch train = part_of(MnistPart::train, 2000);
  const Batch test = part_of(MnistPart::test, 500);
  LinearClassifier classifier;
  for (const float rate : {0.02F, 0.01F, 0.005F}) classifier.train(train["image"], train["label"], rate);
  EXPECT_GT(classifier.share_right(test["image"], test["label"]), 0.9);
}

TEST(Digits, are_as_bright_as_those_of_mnist) {
  const Mnist data = draw_digits(500, 1);
  double sum = 0;
  double squares = 0;
  for (const std::uint8_t pixel : data.images.as<std::uint8_t>()) {
    sum += pixel / 255.0;
    squares += pixel / 255.0 * pixel / 255.0;
  }
  const auto count = static_cast<double>(data.images.size());
  EXPECT_NEAR(sum / count, 0.1307, 0.04);
  EXPECT_NEAR(std::sqrt(squares / count - sum / count * sum / count), 0.3081, 0.05);
}

TEST(Digits, of_a_small_set_begin_a_large_one_and_depend_on_the_seed) {
  const Mnist few = draw_digits(3, 1);
  const Mnist many = draw_digits(20, 1);
  EXPECT_TRUE(std::ranges::equal(few.images.bytes(), many.images.bytes().first(few.images.bytes().size())));
  EXPECT_NE(few.images, draw_digits(3, 2).images);
  EXPECT_NE(few.images, draw_digits(3, 1, MnistPart::test).images);
}

TEST(Digits, of_every_kind_are_drawn_with_a_black_border_around_most) {
  const Mnist data = draw_digits(200, 1);
  std::array<int, 10> seen{};
  for (const std::uint8_t label : data.labels.as<std::uint8_t>()) ++seen.at(label);
  EXPECT_GT(*std::ranges::min_element(seen), 5);
  int lit = 0;
  for (std::size_t i = 0; i < 200; ++i)
    for (std::size_t x = 0; x < 28; ++x) lit += data.images.as<std::uint8_t>()[i * 784 + x] > 0;
  EXPECT_LT(lit, 200);
}

TEST(Digits, are_written_as_mnist) {
  for (const bool gzip : {false, true}) {
    const std::string folder = scratch_folder();
    write_digits(folder, {.train = 30, .test = 7, .seed = 5, .gzip = gzip});
    const Mnist train = read_mnist(folder);
    EXPECT_EQ(train.images, draw_digits(30, 5).images);
    EXPECT_EQ(train.labels, draw_digits(30, 5).labels);
    EXPECT_EQ(read_mnist(folder, MnistPart::test).labels.size(), 7);
    EXPECT_EQ(error_of([&] { write_digits(folder, {.train = 1, .test = 1}); }).substr(folder.size(), 24),
              "/train-images-idx3-ubyte");
  }
}

TEST(Digits, are_at_least_one) {
  EXPECT_EQ(error_of([] { write_digits("nowhere", {.train = 0}); }),
            "digits: 0 images asked for, must be 1 to 1000000");
}

}  // namespace
}  // namespace shardwright
