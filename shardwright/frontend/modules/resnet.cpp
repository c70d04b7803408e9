#include "shardwright/frontend/modules/resnet.h"

#include <cmath>

namespace shardwright {
namespace {

/// Without bias, since a norm follows. It starts as He and others 2015, by the outputs that an input reaches.
Conv2d convolution(const std::string& name, std::int64_t in, std::int64_t out, const SlidingWindow& window) {
  const auto reached = static_cast<double>(out * window.kernel.rows * window.kernel.columns);
  return {name, in, out, {.window = window, .bias = false, .initializer = normal(std::sqrt(2 / reached))}};
}

}  // namespace

ResidualBlock::ResidualBlock(const std::string& name, const Sizes& s) : add(shardwright::add(name + ".add")) {
  const std::int64_t out = s.is_bottleneck ? 4 * s.width : s.width;
  const auto push = [&](std::int64_t from, std::int64_t to, const SlidingWindow& window) {
    const std::size_t i = convolutions.size() + 1;
    convolutions.push_back(convolution(fmt::format("{}.conv{}", name, i), from, to, window));
    norms.emplace_back(fmt::format("{}.bn{}", name, i), to);
    relus.push_back(relu(fmt::format("{}.relu{}", name, i)));
  };
  const SlidingWindow three{.kernel = 3, .stride = s.stride, .pad = 1};
  if (s.is_bottleneck) {
    push(s.in, s.width, {});
    push(s.width, s.width, three);
    push(s.width, out, {});
  } else {
    push(s.in, s.width, three);
    push(s.width, s.width, {.kernel = 3, .pad = 1});
  }
  if (s.stride != 1 || s.in != out) {
    downsample = convolution(name + ".downsample.0", s.in, out, {.stride = s.stride});
    downsample_norm.emplace(name + ".downsample.1", out);
  }
}

Traced ResidualBlock::operator()(Traced x) const {
  Traced y = x;
  for (std::size_t i = 0; i < convolutions.size(); ++i) {
    y = norms[i](convolutions[i](y));
    if (i + 1 < convolutions.size()) y = relus[i](y);
  }
  return relus.back()(add(y, downsample ? (*downsample_norm)((*downsample)(x)) : x));
}

ResNet::ResNet(const Options& options)
    : conv1(convolution("conv1", 3, options.width, {.kernel = 7, .stride = 2, .pad = 3})),
      bn1("bn1", options.width),
      relu(shardwright::relu("relu")),
      maxpool(max_pool2d("maxpool", {.kernel = 3, .stride = 2, .pad = 1})),
      avgpool(global_avg_pool2d("avgpool")) {
  ResidualBlock::Sizes sizes{
      .in = options.width, .width = options.width, .is_bottleneck = options.is_bottleneck};
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (int block = 0; block < options.blocks[layer]; ++block) {
      sizes.stride = layer > 0 && block == 0 ? 2 : 1;
      layers[layer].emplace_back(fmt::format("layer{}.{}", layer + 1, block), sizes);
      sizes.in = layers[layer].back().out();
    }
    sizes.width *= 2;
  }
}

Traced ResNet::operator()(Traced x) const {
  x = maxpool(relu(bn1(conv1(x))));
  for (const auto& layer : layers)
    for (const ResidualBlock& block : layer) x = block(x);
  return avgpool(x);
}

ResNet::Options resnet_called(std::string_view name) {
  if (name == "resnet18") return {.blocks = {2, 2, 2, 2}};
  if (name == "resnet50") return {.blocks = {3, 4, 6, 3}, .is_bottleneck = true};
  throw error("backbone '{}' does not exist; there are resnet18, resnet50", name);
}

}  // namespace shardwright
