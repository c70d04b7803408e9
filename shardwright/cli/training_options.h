// What `train` does beside its steps: rates that change, evaluation, event files, a limit of time, the best checkpoint.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "shardwright/cli/checkpoints.h"
#include "shardwright/cli/evaluation.h"
#include "shardwright/cli/train_report.h"
#include "shardwright/cli/waiting.h"
#include "shardwright/runtime/event_file.h"
#include "shardwright/runtime/rate_schedule.h"

namespace shardwright {

/// The flags; the same in all processes of a run.
struct TrainingOptions {
  RateSchedule rates;
  std::string schedule = "constant";  // as it was asked for
  std::optional<AskedNetwork> eval;
  std::int64_t eval_every = 0;  // steps; 0: only at the end
  std::string best;             // loss or accuracy; empty: none is kept
  std::string tensorboard;      // folder; empty: none
  double time_limit = 0;        // seconds; 0: none
  std::int64_t tokens = 0;      // of a step
  Waiting waiting;              // for ranks
};
/// `model`: of one micro-batch; `rate`: the optimizer's;
/// `plan`: of the step, on whose devices held-out data are looked at, too.
/// Throws: Error if flags contradict each other, or the data of --eval do not fit the model.
TrainingOptions training_options(const Arguments& arguments, const Model& model, const Length& length,
                                 double rate, const Plan& plan);

/// One run of them. In a run of several processes all of them call everything at the same time.
class Companion {
 public:
  /// `best`: of the run before.
  Companion(const TrainingOptions& options, const SessionStart& start, std::optional<double> best,
            Reporter& reporter, bool is_first);

  /// Sets the rate of a step. All processes do.
  void before(Session& session, std::int64_t step);
  /// A step has been done.
  void behind(const Told& told, std::int64_t step, double seconds, const Session& session);
  /// Evaluates where it is time for that, or `is_end`; whether nothing was better.
  bool evaluate(const Session& session, std::int64_t steps, bool is_end);
  /// The time is up; of this process.
  bool is_late() const;
  std::optional<double> best() const { return best_; }

 private:
  void tell_events(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

  const TrainingOptions& options_;
  Reporter& reporter_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<Evaluator> evaluator_;
  std::optional<EventFile> events_;
  std::optional<double> best_;
  std::int64_t evaluated_ = -1;
};

/// Of the steps from `first` to `steps`: the fourth, when caches are warm, and the fifth, to compare them as many as eight; of
/// fewer the last two.
bool is_recorded(std::int64_t step, std::int64_t first, std::int64_t steps, bool compares);

}  // namespace shardwright
