// Seed 001: operators split by layouts, which say on which devices the parts lie. The first product cuts its
// inputs over the axes (mp) and (sp, dp) of a 2x2x2 arrangement, the second sums over all eight devices.

#include <fmt/core.h>

#include "examples/digits_path.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/runtime/data/dataset.h"

using namespace shardwright;

struct Network {
  Operator flatten1 = flatten("flatten");
  Parameter fc1_weight{"fc1_weight", {28 * 28, 512}, normal()};
  Parameter fc2_weight{"fc2_weight", {512, 512}, normal()};
  Parameter fc3_weight{"fc3_weight", {512, 10}, normal()};
  Operator matmul1 = matmul("matmul1");
  Operator relu1 = relu("relu1");
  Operator matmul2 = matmul("matmul2");
  Operator relu2 = relu("relu2");
  Operator matmul3 = matmul("matmul3");

  Traced operator()(Traced x) const {
    x = flatten1(x);
    x = matmul1(x, fc1_weight);
    x = relu1(x);
    x = matmul2(x, fc2_weight);
    x = relu2(x);
    return matmul3(x, fc3_weight);
  }
};

int main() {
  Network net;
  const DeviceLayout layout({2, 2, 2}, {"dp", "sp", "mp"});
  net.matmul1.shard({layout("mp", {"sp", "dp"}), layout({"sp", "dp"}, "None")});
  net.relu1.shard({{4, 1}});
  const DeviceLayout layout2({8}, {"tp"});
  net.matmul2.shard({layout2("None", "tp"), layout2("tp", "None")});
  net.relu2.shard({{8, 1}});

  const Dataset data =
      mnist_dataset(digits_path())
          .map("image", {rescale(1.0 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw()})
          .map("label", {type_cast(DType::i32)})
          .shuffle(1)
          .batch(32);
  const CrossEntropyLoss loss_fn;
  auto forward = [&](Traced image, Traced target) {
    const Traced logits = net(image);
    return LossAndAux{loss_fn(logits, target), {logits}};
  };
  TrainStep train_step(forward, {{"image", data.type("image")}, {"label", data.type("label")}}, sgd(1e-2),
                       {.devices = 8, .parallel = Parallel::semi_auto_parallel});
  fmt::print("{}", train_step.explain());
  int i = 0;
  for (const Batch& batch : data.epoch(0)) {
    const double loss = train_step(batch["image"], batch["label"]);
    if (i % 10 == 0) fmt::print("epoch: 0, step: {}, loss is {:.7f}\n", i, loss);
    if (++i > 90) break;
  }
}
