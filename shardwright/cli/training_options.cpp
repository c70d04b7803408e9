#include "shardwright/cli/training_options.h"

#include <algorithm>
#include <limits>

#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/mpi_rank.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/sample_flags.h"
#include "shardwright/frontend/source.h"

namespace shardwright {
namespace {

double seconds_of(const Arguments& arguments, const std::string& flag) {
  if (!arguments.has(flag)) return 0;
  const auto seconds = to_number(arguments.text(flag));
  if (!seconds || !(*seconds > 0))
    throw error("{} {}: should be seconds, more than 0", flag, arguments.text(flag));
  return *seconds;
}

}  // namespace

CheckpointOptions checkpoint_options(const Arguments& arguments) {
  const auto path = [&](const std::string& flag) {
    return arguments.has(flag) ? std::optional(arguments.text(flag)) : std::nullopt;
  };
  return {.save = path("--save"),
          .save_every = arguments.integer("--save-every", 0),
          .keep = arguments.integer("--keep", 0),
          .resume = path("--resume"),
          .init = path("--init"),
          .has_frozen =
              !arguments.positionals.empty() && source_of_model(arguments.positionals[0]).inner != nullptr,
          .door = Door::command};
}

AskedTraining training_options(const Arguments& arguments, const Model& model, const Length& length,
                               double rate, const Plan& plan, const CheckpointPlans& checkpoints) {
  AskedTraining asked{.options = {.length = length, .door = Door::command}};
  TrainingOptions& out = asked.options;
  out.run.schedule = arguments.text("--lr-schedule", "constant");
  out.tokens = model.tokens * plan.settings.pipelining.batch_parts();
  const std::string warmup = arguments.text("--warmup");
  out.rates = RateSchedule(out.run.schedule, warmup, rate,
                           {.steps = length.steps, .steps_per_epoch = length.steps_per_epoch});
  if (!warmup.empty()) out.run.schedule += " behind a warm-up of " + warmup;
  out.tensorboard = arguments.text("--tensorboard");
  if (arguments.has("--tensorboard") && out.tensorboard.empty()) throw error("--tensorboard: give a folder");
  out.time_limit = seconds_of(arguments, "--time-limit");
  out.check_replicas = arguments.integer("--check-replicas", 0);
  if (plan.devices() == 1) arguments.idle("--check-replicas", "there is 1 device, which holds all there is");
  out.deterministic_check = arguments.is_on("--deterministic-check");
  asked.waiting = waiting_of(arguments, plan.devices(), arguments.text("--save"));
  out.keep_best = arguments.text("--keep-best");
  out.eval_every = arguments.integer("--eval-every", 0);
  TrainingOptions checked = out;
  if (arguments.has("--eval")) checked.evaluate = [](const Session&, std::int64_t) { return Evaluated{}; };
  check(checked, checkpoints);
  if (!arguments.has("--eval")) return asked;
  PlanRequest request{.devices = plan.devices(), .cluster = plan.cluster};
  request.parallel = parallel_called(plan.parallel);
  if (request.parallel == Parallel::semi_auto_parallel) request.parallel = Parallel::auto_parallel;
  PrepareOptions options = prepare_options_of(arguments);
  options.proves = is_first_rank();
  AskedNetwork eval = asked_network(model, source_of(arguments, "--eval"), request, options);
  check_eval(eval, "--eval " + arguments.text("--eval"));
  if (out.keep_best == "accuracy" && !tells_accuracy(eval))
    throw error("--keep-best accuracy: this network has no classes to be right about; give loss");
  asked.eval = std::make_shared<const AskedNetwork>(std::move(eval));
  return asked;
}

Length length_of(const Arguments& arguments, const TrainingData& data) {
  const std::int64_t per_epoch = data.batches_per_epoch;
  const bool is_endless = arguments.has("--epochs") && per_epoch == 0;
  if (is_endless && !arguments.of_config.contains("--epochs"))
    throw error("--epochs: synthetic data has no end; use --steps");
  if (is_endless) arguments.idle("--epochs", "synthetic data has no end");
  if (is_endless || !arguments.has("--epochs")) return {arguments.integer("--steps", 20), per_epoch};
  std::int64_t of_epochs = 0;
  if (__builtin_mul_overflow(arguments.integer("--epochs", 1), per_epoch, &of_epochs))
    of_epochs = std::numeric_limits<std::int64_t>::max();
  return {std::min(arguments.integer("--steps", of_epochs), of_epochs), per_epoch};  // what ends first
}

}  // namespace shardwright
