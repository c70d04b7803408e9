// Seed 002: high-resolution images, of which one fills a device's memory. The data are split by height: each device holds
// some rows of every image. Where a convolution or pooling reads rows of a neighbour, these are fetched before it (a
// halo); norms sum over all devices. Nothing but the data and the last convolution is told how to lie.

#include <fmt/core.h>

#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/runtime/synthetic.h"

using namespace shardwright;

struct Net {
  Conv2d conv1{"conv1", 3, 8, {.window = {.kernel = 7, .stride = 2, .pad = 3}, .bias = false}};
  BatchNorm2d bn1{"bn1", 8};
  Operator relu1 = relu("relu1");
  Operator maxpool = max_pool2d("maxpool", {.kernel = 3, .stride = 2, .pad = 1});
  Conv2d conv2{"conv2", 8, 16, {.window = {.kernel = 3, .pad = 1}, .bias = false}};
  BatchNorm2d bn2{"bn2", 16};
  Operator relu2 = relu("relu2");
  Operator mean = global_avg_pool2d("mean");
  Dense fc{"fc", 16, 10};

  Traced operator()(Traced x) const {
    x = maxpool(relu1(bn1(conv1(x))));
    x = relu2(bn2(conv2(x)));
    return fc(mean(x));
  }
};

int main() {
  Net net;
  net.conv2.conv2d.shard({{1, 1, 4, 1}, {1, 1, 1, 1}});
  const Type images{DType::f32, {2, 3, 128, 128}}, labels{DType::i32, {2}};
  const SyntheticData data({.inputs = {{"image", images}}, .label_type = labels, .classes = 10, .seed = 1});
  auto forward = [&](Traced image, Traced label) {
    return LossAndAux{CrossEntropyLoss{}(net(image), label)};
  };
  TrainStep train_step(forward, {{"image", images}, {"label", labels}}, momentum(0.01, 0.9),
                       {.devices = 4, .search = "propagation", .dataset_strategy = "((1, 1, 4, 1), (1,))"});
  fmt::print("{}", train_step.explain());
  for (int step = 0; step <= 20; ++step) {
    const Batch batch = data.at_step(step % 4);
    const double loss = train_step(batch["image"], batch["label"]);
    if (step % 10 == 0) fmt::print("step: {}, loss is {:.5f}\n", step, loss);
  }
}
