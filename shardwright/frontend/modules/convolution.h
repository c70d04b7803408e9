// Modules of convolutional networks: images are [batch, channels, rows, columns].
#pragma once

#include <optional>
#include <string>

#include "shardwright/frontend/operator.h"

namespace shardwright {

/// Something of rows and of columns; one number stands for both.
struct Extent2d {
  std::int64_t rows, columns;
  Extent2d(std::int64_t both) : rows(both), columns(both) {}
  Extent2d(std::int64_t r, std::int64_t c) : rows(r), columns(c) {}
};

/// How a kernel slides over an image: `pad` is what is added on either side.
struct SlidingWindow {
  Extent2d kernel = 1;
  Extent2d stride = 1;
  Extent2d pad = 0;
  Extent2d dilation = 1;
};

/// Convolution. Parameters `NAME.weight` (out, in / groups, kernel rows, kernel columns) and `NAME.bias` (out);
/// operators `NAME.conv2d` and, with a bias, `NAME.expand` (it as [out, 1, 1]) and `NAME.add`. Both parameters start
/// uniform in +-1/sqrt(inputs of an output), the weight as `initializer` says if it is given.
struct Conv2d {
  struct Options {
    SlidingWindow window = {};
    std::int64_t groups = 1;
    bool bias = true;
    std::optional<Initializer> initializer = {};
  };
  /// Throws: Error if the groups do not divide the channels.
  Conv2d(const std::string& name, std::int64_t in, std::int64_t out, Options options);

  /// Shapes: x [batch, in, rows, columns] -> [batch, out, ...]
  Traced operator()(Traced x) const;

  Operator conv2d;
  Operator expand;
  Operator add;
  Parameter weight;
  Parameter bias;
  bool has_bias;
};

/// Batch norm per channel by the statistics of the whole batch, however it is split. Parameters `NAME.weight` and
/// `NAME.bias`, states `NAME.running_mean` and `NAME.running_var`, all [channels]; operators `NAME.moments`,
/// `NAME.norm` and `NAME.running`.
struct BatchNorm2d {
  struct Options {
    double epsilon = 1e-5;
    double momentum = 0.1;      // weight of the batch in the new running statistics
    bool uses_running = false;  // normalises by the running statistics and leaves them alone
  };
  BatchNorm2d(const std::string& name, std::int64_t channels) : BatchNorm2d(name, channels, Options{}) {}
  BatchNorm2d(const std::string& name, std::int64_t channels, Options options);

  /// Shapes: x [batch, channels, ...], and the result. Throws: Error if the batch has one element per channel, which
  /// has no variance.
  Traced operator()(Traced x) const;

  Operator moments;
  Operator norm;
  Operator running;
  Parameter weight;
  Parameter bias;
  State running_mean;
  State running_var;
  Options options;
};

/// The largest of each window, and its mean (a pad counts as zeros).
Operator max_pool2d(std::string name, const SlidingWindow& window);
Operator avg_pool2d(std::string name, const SlidingWindow& window);
/// The mean of each channel: [batch, channels, rows, columns] -> [batch, channels]
Operator global_avg_pool2d(std::string name);

}  // namespace shardwright
