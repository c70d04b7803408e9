// Training in one call: a step of one's own, data and options of the loop that `train` runs (training/train.h).
//
//   const TrainingEnded end = fit(step, training_data(dataset), {.steps = 500, .save = "run", .save_every = 100},
//                                 [](const TrainingEvent& event) { ...; return Then::goes_on; });
//
// Called again with `.resume = "auto"` it goes on from what is saved: after an interrupt, after a step that has failed, in
// another process, under another plan.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "shardwright/frontend/train_step.h"
#include "shardwright/runtime/data/dataset.h"
#include "shardwright/runtime/data/length_buckets.h"
#include "shardwright/training/train.h"

namespace shardwright {

class GraphStep;

/// By the names of the command's flags.
struct FitOptions {
  std::int64_t first = 0;   // steps that this session has done before, where it goes on from no checkpoint
  std::int64_t steps = 20;  // with those before
  std::string lr_schedule = "constant";
  std::string warmup = "";
  /// From which schedules start, and which the step has behind them; none: the optimizer's.
  std::optional<double> lr = {};
  std::optional<std::string> save = {};
  std::int64_t save_every = 0;
  std::int64_t keep = 0;
  std::optional<std::string> resume = {};
  std::optional<std::string> init = {};
  /// What held-out data say of the weights that the session has now; its `step` is filled in.
  std::function<Evaluated(const Session& trained, std::int64_t steps)> evaluate = {};
  std::int64_t eval_every = 0;
  std::string keep_best = "";
  std::string tensorboard = "";
  double time_limit = 0;
  std::optional<std::uint64_t> seed = {};  // as checkpoints say; the data's own is whoever makes them
  std::string model = "traced network";    // likewise
  std::int64_t tokens = 0;                 // of a step
  /// As in TrainingOptions.
  std::function<std::vector<Tensor>(const StepBatch&)> step = {};
  std::function<bool()> is_interrupted = {};
  Progress* progress = nullptr;
};

/// Batches by step; columns are named after the step's inputs.
TrainingData training_data(const Dataset& data);

/// Names of columns beside `input` and `label`; empty: there is none. `mask`, f32 [batch, length]: 1 where a label is asked for, else 0;
/// `weights`, f32 [batch]: what each sample's labels count, for AskedCrossEntropyLoss.
struct BucketColumns {
  std::string mask = "", weights = "";
};
/// Documents of all lengths in batches of few.
TrainingData training_data(LengthBuckets data, BucketColumns columns = {});

/// Throws: Error if options contradict each other or the step, and as training does.
TrainingEnded fit(Session& session, const Plan& plan, TrainingData data, const FitOptions& options,
                  const OnEvent& on_event = {});
TrainingEnded fit(TrainStep& step, TrainingData data, const FitOptions& options,
                  const OnEvent& on_event = {});
TrainingEnded fit(GraphStep& step, TrainingData data, const FitOptions& options,
                  const OnEvent& on_event = {});

}  // namespace shardwright
