// Seed 002: functional sharding. Layouts are said at the edges of a block and of its parameters; the strategies of
// all operators are found.

#include <fmt/core.h>

#include "examples/digits_path.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/shard.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/runtime/data/dataset.h"

using namespace shardwright;

struct FeedForward {
  Dense dense1{"block.dense1", 28 * 28, 512};
  Operator relu1 = relu("block.relu");
  Dense dense2{"block.dense2", 512, 128};

  Traced operator()(Traced x) const { return dense2(relu1(dense1(x))); }
};

struct Network {
  Operator flatten1 = flatten("flatten");
  FeedForward block;
  Operator relu1 = relu("relu");
  Dense head{"head", 128, 10};
};

int main() {
  const Network net;
  // The block computes on a 2 x 4 arrangement: the batch over dp, the hidden values over tp. The head has the
  // batch over all eight devices.
  const DeviceLayout layout({2, 4}, {"dp", "tp"});
  const auto block =
      shard(net.block,
            {.in = {layout("dp", "None")},
             .out = {{8, 1}},
             .parameters = {{"dense1.weight", layout("None", "tp")}, {"dense2.weight", layout("tp", "None")}},
             .name = "block"});

  const Dataset data =
      mnist_dataset(digits_path())
          .map("image", {rescale(1.0 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw()})
          .map("label", {type_cast(DType::i32)})
          .shuffle(1)
          .batch(32);
  const CrossEntropyLoss loss_fn;
  auto forward = [&](Traced image, Traced target) {
    const Traced logits = net.head(net.relu1(block(net.flatten1(image))));
    return LossAndAux{loss_fn(logits, target), {logits}};
  };
  TrainStep train_step(forward, {{"image", data.type("image")}, {"label", data.type("label")}},
                       momentum(0.02, 0.9), {.devices = 8, .search = "propagation"});
  fmt::print("{}", train_step.explain());
  int i = 0;
  for (const Batch& batch : data.epoch(0)) {
    const double loss = train_step(batch["image"], batch["label"]);
    if (i % 10 == 0) fmt::print("step: {}, loss is {:.7f}\n", i, loss);
    if (++i > 40) break;
  }
}
