// A training loop of one's own with what `train` has: a rate that falls, held-out data, event files, checkpoints of
// which the best stays, and a limit of time.
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "examples/digits_path.h"
#include "shardwright/shardwright.h"

using namespace shardwright;
using Clock = std::chrono::steady_clock;

struct Net {
  Operator flatten1 = flatten("flatten");
  Dense dense1{"dense1", 28 * 28, 64};
  Operator relu1 = relu("relu");
  Dense dense2{"dense2", 64, 10};
  Traced operator()(Traced x) const { return dense2(relu1(dense1(flatten1(x)))); }
};

int main() {
  const Net net;
  const CrossEntropyLoss loss_of;
  const Dataset data =
      mnist_dataset(digits_path())
          .map("image", {rescale(1.0 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw()})
          .map("label", {type_cast(DType::i32)})
          .shuffle(1)
          .batch(32);
  const InputTypes inputs{{"image", data.type("image")}, {"label", data.type("label")}};
  OptimizerChoice optimizer = momentum(0.05, 0.9);
  optimizer.has_set_rate = true;
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("shardwright_loop.{}", ::getpid());

  // The loop: twenty lines.
  TrainStep step([&](Traced x, Traced y) { return LossAndAux{loss_of(net(x), y)}; }, inputs, optimizer,
                 {.devices = 8});
  PredictStep held_out([&](const std::vector<Traced>& in) { return std::vector{loss_of(net(in[0]), in[1])}; },
                       inputs, {.devices = 8});
  const RateSchedule rates("cosine:end=0.001", "10%", 0.05, {.steps = 60});
  EventFile events((folder / "events").string());
  CheckpointSaver saver(step.session(), {.folder = folder.string(), .keep = 2, .plan = to_json(step.plan())});
  const Batch last = data.at_step(1000);  // that no step trains on
  const auto limit = Clock::now() + std::chrono::minutes(5);
  double best = INFINITY;
  for (std::int64_t done = 0; done < 60 && Clock::now() < limit;) {
    const Batch batch = data.at_step(done);
    step.set_rate(rates.at(done));
    const double loss = step(batch["image"], batch["label"]);
    events.write(done, {{"loss", loss}, {"learning_rate", rates.at(done)}});
    if (++done % 20 != 0) continue;
    held_out.take_weights(step.session());
    const double now = to_doubles(held_out({last["image"], last["label"]})[0])[0];
    fmt::print("behind step {}: loss is {:.4f}, held out {:.4f}\n", done, loss, now);
    saver.save({.model = "digits", .step = done, .seed = 1, .samples = 32}, now < best);
    best = std::min(best, now);
  }
  for (const Saved& saved : saver.wait()) fmt::print("saved step {}{}\n", saved.step, saved.failure);

  std::filesystem::remove_all(folder);
}
