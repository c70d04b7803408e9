// Seed 000: a feed-forward network on MNIST. Two operators are annotated; the strategies of all others are
// found by sharding propagation.

#include <fmt/core.h>

#include "examples/digits_path.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/runtime/data/dataset.h"

using namespace shardwright;

struct FFN {
  Operator flatten1 = flatten("flatten");
  Dense dense1{"dense1", 28 * 28, 512};
  Operator relu1 = relu("relu");
  Dense dense2{"dense2", 512, 256};
  Dense dense3{"dense3", 256, 128};
  Dense dense4{"dense4", 128, 64};
  Dense dense5{"dense5", 64, 10};

  Traced operator()(Traced x) const {
    x = flatten1(x);
    x = dense1(x);
    x = relu1(x);
    x = dense2(x);
    x = relu1(x);
    x = dense3(x);
    x = relu1(x);
    x = dense4(x);
    x = relu1(x);
    return dense5(x);
  }
};

int main() {
  FFN net;
  net.dense1.matmul.shard({{2, 4}, {4, 1}});
  net.dense3.matmul.shard({{1, 8}, {8, 1}});

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
  TrainStep train_step(forward, {{"image", data.type("image")}, {"label", data.type("label")}},
                       momentum(0.05, 0.9),
                       {.devices = 8, .parallel = Parallel::auto_parallel, .search = "propagation"});
  fmt::print("{}", train_step.explain());

  for (int epoch = 0; epoch < 1; ++epoch) {
    int i = 0;
    for (const Batch& batch : data.epoch(epoch)) {
      const double loss = train_step(batch["image"], batch["label"]);
      if (i % 10 == 0) fmt::print("epoch: {}, step: {}, loss is {:.7f}\n", epoch, i, loss);
      if (++i > 50) break;
    }
  }
}
