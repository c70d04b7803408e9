#include "shardwright/frontend/fit.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/frontend/graph_step.h"
#include "shardwright/frontend/label_weights.h"
#include "shardwright/frontend/samples.h"
#include "shardwright/graph/op.h"
#include "shardwright/runtime/checkpoint/load.h"

namespace shardwright {
namespace {

/// With which the optimizer began, if it is told its rate.
std::optional<double> rate_of(const Pipeline& pipeline) {
  for (const Program& stage : pipeline.stages)
    for (const Value& v : stage.graph.values)
      if (const Node& node = stage.graph.node(v.producer);
          v.name == rate_state && node.op->kind == OpKind::state)
        return node.attributes.number("value", 0);
  return std::nullopt;
}

/// From which rate schedules start; nothing if the optimizer has a fixed one. Throws: Error if one is asked for all the same.
std::optional<double> base_rate(const Session& session, const FitOptions& options) {
  const std::optional<double> own = rate_of(session.pipeline());
  const bool is_constant = is_constant_rate(options.lr_schedule, options.warmup);
  if (!own && (!is_constant || options.lr))
    throw error("{}: the optimizer of this step has a fixed rate; make the step with has_set_rate",
                is_constant ? fmt::format("lr {}", *options.lr) : "lr_schedule " + options.lr_schedule);
  if (!own || (is_constant && !options.lr)) return std::nullopt;
  return options.lr.value_or(*own);
}

/// The first process takes it; what it finds, all hear.
std::optional<FolderLock> lock_of(Session& session, const CheckpointOptions& options) {
  std::optional<FolderLock> lock;
  std::string why;
  if (session.ranks().front() == 0) try {
      if (auto own = lock_of_run(options)) lock.emplace(std::move(*own));
    } catch (const Error& e) {
      why = e.what();
    }
  if (session.any(!why.empty())) throw error("{}", why.empty() ? "rank 0 cannot save there" : why);
  return lock;
}

}  // namespace

TrainingData training_data(const Dataset& data) {
  const Batch first = data.at_step(0);
  const auto any = first.columns.begin();
  const bool has_rows = any != first.columns.end() && !any->second.shape().empty();
  return {.batch =
              [reader = std::make_shared<StepReader>(data)](std::int64_t step) {
                const Batch b = reader->at(step);
                return StepBatch(b.columns.begin(), b.columns.end());
              },
          .batches_per_epoch = data.batches_per_epoch(),
          .samples = has_rows ? any->second.shape()[0] : 1};
}

TrainingData training_data(LengthBuckets data, BucketColumns columns) {
  const auto buckets = std::make_shared<const LengthBuckets>(std::move(data));
  const auto batch = [buckets, columns = std::move(columns)](std::int64_t step) {
    StepBatch out = buckets->at_step(step);
    const Tensor label = out.at("label");
    if (!columns.weights.empty())
      out.emplace(columns.weights, label_weights(label, label.shape()[0], DType::f32));
    if (columns.mask.empty()) return out;
    Tensor asked({DType::f32, label.shape()});
    std::ranges::transform(label.as<std::int32_t>(), asked.as<float>().begin(),
                           [](std::int32_t id) { return id == not_asked ? 0.0F : 1.0F; });
    out.emplace(columns.mask, std::move(asked));
    return out;
  };
  return {.batch = batch,
          .batches_per_epoch = buckets->batches_per_epoch(),
          .samples = buckets->options().batch,
          .lengths = lengths_text(buckets->options())};
}

namespace {

CheckpointPlans checkpoints_of(Session& session, const FitOptions& options, std::ostream& notices) {
  const CheckpointOptions saving{.save = options.save,
                                 .save_every = options.save_every,
                                 .keep = options.keep,
                                 .resume = options.resume,
                                 .init = options.init};
  for (const auto& [name, number] : {std::pair("save_every", saving.save_every), {"keep", saving.keep}})
    if (number < 0) throw error("{} {}: should be a number from 1 on", name, number);
  std::optional<FolderLock> lock = lock_of(session, saving);
  return checkpoint_plans(saving, std::move(lock), notices);
}

TrainingOptions training_of(const FitOptions& options, const Plan& plan, const TrainingData& data,
                            const CheckpointPlans& checkpoints, double rate) {
  TrainingOptions out{.first = options.first,
                      .length = {options.steps, data.batches_per_epoch},
                      .rates = RateSchedule(options.lr_schedule, options.warmup, rate,
                                            {options.steps, data.batches_per_epoch}),
                      .evaluate = options.evaluate,
                      .eval_every = options.eval_every,
                      .keep_best = options.keep_best,
                      .tensorboard = options.tensorboard,
                      .time_limit = options.time_limit,
                      .tokens = options.tokens,
                      .plan = to_json(plan),
                      .run = {.model = options.model,
                              .seed = seed_of(options.seed, checkpoints),
                              .samples = std::max<std::int64_t>(data.samples, 1),
                              .schedule = options.lr_schedule,
                              .lengths = data.lengths},
                      .step = options.step,
                      .is_interrupted = options.is_interrupted,
                      .progress = options.progress};
  if (!options.warmup.empty()) out.run.schedule += " behind a warm-up of " + options.warmup;
  return out;
}

}  // namespace

TrainingEnded fit(Session& session, const Plan& plan, TrainingData data, const FitOptions& options,
                  const OnEvent& on_event) {
  if (!data.batch) throw error("data: there is no function that gives a step's batch");
  std::ostringstream notices;
  CheckpointPlans checkpoints = checkpoints_of(session, options, notices);
  const std::optional<double> rate = base_rate(session, options);
  TrainingOptions training = training_of(options, plan, data, checkpoints, rate.value_or(0));
  check(training, checkpoints);
  check_batch(checkpoints, training.run.samples);
  check_lengths(checkpoints, data.lengths);
  tell_changes(checkpoints, options.model, plan.origin, training.run.schedule, notices);
  if (options.init && !checkpoints.init)  // a file
    for (const std::string& line : load(session, open_source(*options.init), Restored::parameters))
      notices << line << "\n";
  const std::string told = notices.str();
  if (on_event)
    for (std::string_view line : split(told, '\n'))
      if (!line.empty()) on_event(CheckpointNotice{std::string(line)});
  const auto hear = [&](const TrainingEvent& event) {
    // A checkpoint has the rate of its last step.
    if (rate && std::holds_alternative<TrainingBegan>(event)) set_rate(session, *rate);
    return on_event ? on_event(event) : Then::goes_on;
  };
  const TrainingEnded ended = train(session, data, std::move(training), checkpoints, hear);
  if (rate) set_rate(session, *rate);
  return ended;
}

namespace {

/// A step of its own runs in the program of its batch's size.
template <class Step>
FitOptions of_any_size(Step& step, FitOptions options) {
  if (!options.step) options.step = [&step](const StepBatch& batch) { return step.run(batch); };
  return options;
}

}  // namespace

TrainingEnded fit(TrainStep& step, TrainingData data, const FitOptions& options, const OnEvent& on_event) {
  return fit(step.session(), step.plan(), std::move(data), of_any_size(step, options), on_event);
}

TrainingEnded fit(GraphStep& step, TrainingData data, const FitOptions& options, const OnEvent& on_event) {
  return fit(step.session(), step.plan(), std::move(data), of_any_size(step, options), on_event);
}

}  // namespace shardwright
