// The loop of training: steps with rates that change, held-out data, checkpoints, event files, a limit of time, an end
// before the last step. What happens is told as events; nothing is printed.
//
// `train` of the command line, `fit` of C++ (frontend/fit.h) and of Python are this function. In a run of several processes
// all of them call it at the same time, with the same options; a step that fails throws and leaves the loop, and who starts
// ranks again calls it again with what is saved.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/runtime/rate_schedule.h"
#include "shardwright/runtime/session.h"
#include "shardwright/training/checkpoints.h"
#include "shardwright/training/events.h"

namespace shardwright {

/// Of a training.
struct Length {
  std::int64_t steps = 0;            // with those before
  std::int64_t steps_per_epoch = 0;  // 0: no epochs
};

/// A whole tensor for each input, by name, of a step.
using StepBatch = std::map<std::string, Tensor>;

/// Where batches come from.
struct TrainingData {
  std::function<StepBatch(std::int64_t step)> batch;
  std::int64_t batches_per_epoch = 0;  // 0: without end
  std::string source = {};             // the file, if it is one
  std::int64_t samples = 0;            // of a batch
  std::string lengths = {};            // of sequences, where batches have several, as in 64,128; empty: one
};

/// Of which steps the session records what every rank does, for traces and comparisons.
enum class Recording { none, two, eight };

struct TrainingOptions {
  std::int64_t first = 0;  // steps done before, where no checkpoint is gone on from
  Length length;
  RateSchedule rates = RateSchedule();
  /// Held-out data, with the weights that the session has; null: there are none.
  std::function<Evaluated(const Session& trained, std::int64_t steps)> evaluate = {};
  std::int64_t eval_every = 0;      // steps; 0: only at the end
  std::string keep_best = {};       // loss or accuracy: what is best is saved, too; empty: not
  std::string tensorboard = {};     // folder; empty: none
  double time_limit = 0;            // seconds; 0: none
  std::int64_t check_replicas = 0;  // steps behind which what several ranks hold is compared; 0: never
  bool deterministic_check =
      false;                // of these steps, or the first, whether it gives the same when it is run again
  std::int64_t tokens = 0;  // of a step
  Recording recording = Recording::none;
  std::string plan = {};  // as JSON, for checkpoints
  RunState run = {};      // but for the step
  /// Behind each step, with what a run needs to go on from there: for copies of the state elsewhere. Null: there are none. All
  /// processes call it.
  std::function<void(const RunState&)> copy = {};
  /// What to do as a step; null: the session's. All processes call it.
  std::function<std::vector<Tensor>(const StepBatch&)> step = {};
  /// Asked between steps: whether the run shall end, saved; of this process.
  std::function<bool()> is_interrupted = {};
  /// The session's own `stop`: a step that fails while it is true was stopped on purpose.
  const std::atomic<bool>* stop = nullptr;
  Progress* progress = nullptr;
  Door door = Door::code;
};

/// Throws: Error if options contradict each other.
void check(const TrainingOptions& options, const CheckpointPlans& checkpoints);

/// Trains from where `checkpoints` say. Throws: what a step throws, and Error of kind io if the last steps cannot be saved.
TrainingEnded train(Session& session, const TrainingData& data, TrainingOptions options,
                    CheckpointPlans& checkpoints, const OnEvent& on_event);

/// Of the steps from `first` to `steps`: the fourth, when caches are warm, and the fifth, to compare them as many as eight; of
/// fewer the last two.
bool is_recorded(std::int64_t step, std::int64_t first, std::int64_t steps, Recording recording);

}  // namespace shardwright
