// Training in one call, with what `train` has: a rate that falls, held-out data, event files, checkpoints of which the best
// stays, and a limit of time. What happens is told as events.
#include <fmt/core.h>

#include <filesystem>

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

  TrainStep step([&](Traced x, Traced y) { return LossAndAux{loss_of(net(x), y)}; }, inputs, optimizer,
                 {.devices = 8});
  PredictStep held_out([&](const std::vector<Traced>& in) { return std::vector{loss_of(net(in[0]), in[1])}; },
                       inputs, {.devices = 8});
  const Batch last = data.at_step(1000);  // that no step trains on
  FitOptions options{.steps = 60,
                     .lr_schedule = "cosine:end=0.001",
                     .warmup = "10%",
                     .save = folder.string(),
                     .save_every = 20,
                     .keep = 2,
                     .eval_every = 20,
                     .keep_best = "loss",
                     .tensorboard = (folder / "events").string(),
                     .time_limit = 300,
                     .model = "digits"};
  options.evaluate = [&](const Session& trained, std::int64_t) {
    held_out.take_weights(trained);
    return Evaluated{.loss = to_doubles(held_out({last["image"], last["label"]})[0])[0]};
  };
  double loss = 0;
  const TrainingEnded ended = fit(step, training_data(data), options, [&](const TrainingEvent& event) {
    std::visit(
        Each{[&](const StepDone& e) { loss = e.told.loss; },
             [&](const Evaluated& e) {
               fmt::print("behind step {}: loss is {:.4f}, held out {:.4f}\n", e.step, loss, e.loss);
             },
             [](const Saved& e) { fmt::print("saved step {}{}\n", e.step, e.failure); }, [](const auto&) {}},
        event);
    return loss > 100 ? Then::ends : Then::goes_on;  // nothing will come of it
  });
  fmt::print("{} steps done\n", ended.steps);

  std::filesystem::remove_all(folder);
}
