// A job that lasts: trained with a rate that falls, saved beside the training, gone on with under another plan, and
// asked on other devices.
#include <fmt/core.h>

#include "examples/digits_path.h"
#include "shardwright/shardwright.h"

using namespace shardwright;

struct Net {
  Operator flatten1 = flatten("flatten");
  Dense dense1{"dense1", 28 * 28, 64};
  Operator relu1 = relu("relu");
  Dense dense2{"dense2", 64, 10};
  Traced operator()(Traced x) const { return dense2(relu1(dense1(flatten1(x)))); }
};

int main() {
  const Net net;
  const Dataset data =
      mnist_dataset(digits_path())
          .map("image", {rescale(1.0 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw()})
          .map("label", {type_cast(DType::i32)})
          .shuffle(1)
          .batch(32);
  const InputTypes inputs{{"image", data.type("image")}, {"label", data.type("label")}};
  const auto forward = [&](Traced image, Traced label) {
    return LossAndAux{CrossEntropyLoss{}(net(image), label)};
  };
  OptimizerChoice optimizer = momentum(0.05, 0.9);
  optimizer.has_set_rate = true;
  const RateSchedule rates("cosine", "10", 0.05, {.steps = 60});
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("shardwright_run.{}", ::getpid());

  for (const int devices : {8, 4}) {  // the second run goes on where the first left off
    TrainStep step(forward, inputs, optimizer, {.devices = devices});
    std::int64_t done = 0;
    if (devices == 4) {
      const TensorSource saved = open_source(folder.string());
      load(step.session(), saved, Restored::all);
      done = saved.run.step;
    }
    CheckpointSaver saver(step.session(),
                          {.folder = folder.string(), .keep = 2, .plan = to_json(step.plan())});
    for (const std::int64_t end = done + 30; done < end;) {
      const Batch batch = data.at_step(done);
      step.set_rate(rates.at(done));
      const double loss = step(batch["image"], batch["label"]);
      if (++done % 10 == 0) {
        saver.save({.model = "digits", .step = done, .seed = 1, .samples = 32});
        fmt::print("{} devices, step {}: loss is {:.5f}\n", devices, done, loss);
      }
    }
    for (const Saved& saved : saver.wait()) fmt::print("saved step {}{}\n", saved.step, saved.failure);
  }

  PredictStep predict([&](const std::vector<Traced>& in) { return std::vector{net(in[0])}; },
                      {{"image", data.type("image")}}, {.devices = 2});
  predict.load_distributed_checkpoint(folder.string());
  for (const auto& [name, layout] : predict.infer_predict_layout())
    fmt::print("{}: slices of {}\n", name, to_text(layout.slice_shape));
  const Tensor logits = predict({data.at_step(60)["image"]})[0];
  fmt::print("logits are {}\n", to_text(logits.type()));
  std::filesystem::remove_all(folder);
}
