// Seed 000, second network: three dense layers and the mean absolute error; nothing is annotated.

#include <fmt/core.h>

#include "examples/digits_path.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/runtime/data/dataset.h"

using namespace shardwright;

struct Network {
  Operator flatten1 = flatten("flatten");
  Dense layer1{"layer1", 28 * 28, 512};
  Dense layer2{"layer2", 512, 512};
  Dense layer3{"layer3", 512, 1};
  Operator relu1 = relu("relu");

  Traced operator()(Traced x) const {
    x = flatten1(x);
    x = relu1(layer1(x));
    x = relu1(layer2(x));
    return layer3(x);
  }
};

int main() {
  const Network net;
  const Dataset data =
      mnist_dataset(digits_path())
          .map("image", {rescale(1.0 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw()})
          .map("label", {type_cast(DType::f32), reshape({1})})
          .shuffle(1)
          .batch(32);
  const MeanAbsoluteError loss_fn;
  auto forward = [&](Traced image, Traced target) {
    const Traced output = net(image);
    return LossAndAux{loss_fn(output, target), {output}};
  };
  TrainStep train_step(forward, {{"image", data.type("image")}, {"label", data.type("label")}},
                       momentum(0.01, 0.1), {.devices = 8});
  fmt::print("{}", train_step.explain());
  int i = 0;
  for (const Batch& batch : data.epoch(0)) {
    const double loss = train_step(batch["image"], batch["label"]);
    if (i % 10 == 0) fmt::print("epoch: 0, step: {}, loss is {:.7f}\n", i, loss);
    if (++i > 50) break;
  }
}
