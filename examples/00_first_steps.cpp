#include <fmt/core.h>

#include "examples/digits_path.h"
#include "shardwright/shardwright.h"
using namespace shardwright;

struct Net {
  Operator flatten1 = flatten("flatten");
  Dense dense1{"dense1", 28 * 28, 512};
  Operator relu1 = relu("relu");
  Dense dense2{"dense2", 512, 10};
  Traced operator()(Traced x) const { return dense2(relu1(dense1(flatten1(x)))); }
};

int main() {
  Net net;                                    // written for one device
  net.dense1.matmul.shard({{2, 4}, {4, 1}});  // one operator annotated: parts per dim of each input

  const Dataset data =
      mnist_dataset(digits_path())
          .map("image", {rescale(1.0 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw()})
          .map("label", {type_cast(DType::i32)})
          .shuffle(1)
          .batch(32);
  auto forward = [&](Traced image, Traced label) {
    return LossAndAux{CrossEntropyLoss{}(net(image), label)};
  };
  TrainStep train_step(forward, {{"image", data.type("image")}, {"label", data.type("label")}},
                       momentum(0.05, 0.9), {.devices = 8});  // the other strategies are found
  fmt::print("{}", train_step.explain());
  int step = 0;
  for (const Batch& batch : data.epoch(0)) {
    const double loss = train_step(batch["image"], batch["label"]);
    if (step % 10 == 0) fmt::print("step: {}, loss is {:.7f}\n", step, loss);
    if (++step > 40) break;
  }
}
