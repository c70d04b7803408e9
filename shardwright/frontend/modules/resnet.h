// Residual networks (He and others 2015; the stride of a bottleneck in its 3x3 convolution, as torchvision): their
// trunk, from images to features. Parameters are called as torchvision's: `conv1.weight`, `layer1.0.bn2.bias`,
// `layer2.0.downsample.1.running_mean`.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/frontend/modules/convolution.h"

namespace shardwright {

/// Convolutions of 3x3 (two), or of 1x1, 3x3 and 1x1 to four times the width, around which x goes unchanged.
struct ResidualBlock {
  struct Sizes {
    std::int64_t in;
    std::int64_t width;
    std::int64_t stride = 1;
    bool is_bottleneck = false;
  };
  ResidualBlock(const std::string& name, const Sizes& sizes);

  /// Shapes: x [batch, in, rows, columns] -> [batch, out(), rows / stride, columns / stride]
  Traced operator()(Traced x) const;
  std::int64_t out() const { return convolutions.back().weight.shape.front(); }

  std::vector<Conv2d> convolutions;
  std::vector<BatchNorm2d> norms;    // one behind each convolution
  std::vector<Operator> relus;       // one behind each norm; the last one's, behind the sum
  std::optional<Conv2d> downsample;  // where x needs other channels or sizes to be added
  std::optional<BatchNorm2d> downsample_norm;
  Operator add;
};

struct ResNet {
  static constexpr std::int64_t most_width = 1 << 20;

  struct Options {
    std::array<int, 4> blocks = {2, 2, 2, 2};
    bool is_bottleneck = false;
    std::int64_t width = 64;  // channels of the first convolution; each of the four layers doubles them
  };
  explicit ResNet(const Options& options);

  /// Shapes: x [batch, 3, rows, columns] -> [batch, features()]
  Traced operator()(Traced x) const;
  std::int64_t features() const { return layers.back().back().out(); }

  Conv2d conv1;
  BatchNorm2d bn1;
  Operator relu;
  Operator maxpool;
  std::array<std::vector<ResidualBlock>, 4> layers;
  Operator avgpool;
};

/// The numbers of blocks of `resnet18`, `resnet50`. Throws: Error that lists the names.
ResNet::Options resnet_called(std::string_view name);

}  // namespace shardwright
