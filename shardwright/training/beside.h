// What a training does beside its steps: held-out data and event files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/runtime/event_file.h"
#include "shardwright/training/train.h"

namespace shardwright {

/// Of one run. In a run of several processes all of them call everything at the same time.
class Beside {
 public:
  using Tell = std::function<void(const TrainingEvent&)>;

  /// `options` outlive it; `best`: of the run before.
  Beside(const TrainingOptions& options, const Session& session, std::optional<double> best, Tell tell);

  /// A step has been done.
  void behind(const StepDone& step, const Session& session);
  /// Evaluates where it is time for that, or `is_end`; whether nothing was better.
  bool evaluate(const Session& session, std::int64_t steps, bool is_end);
  std::optional<double> best() const { return best_; }

 private:
  void write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

  const TrainingOptions& options_;
  Tell tell_;
  std::optional<EventFile> events_;
  std::optional<double> best_;
  std::int64_t evaluated_ = -1;
  bool has_norm_ = false;  // of all gradients, which a step keeps where it is asked to
};

}  // namespace shardwright
