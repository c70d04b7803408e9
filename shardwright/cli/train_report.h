// What `train` prints: a line per step and the summary, for people or as JSON.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/base/progress.h"
#include "shardwright/cli/evaluation.h"
#include "shardwright/cli/verb.h"
#include "shardwright/frontend/plan_page.h"
#include "shardwright/runtime/checkpoint/saver.h"
#include "shardwright/runtime/comparison.h"
#include "shardwright/runtime/memory_marks.h"
#include "shardwright/runtime/session.h"
#include "shardwright/runtime/trace_file.h"

namespace shardwright {

/// Of a training.
struct Length {
  std::int64_t steps = 0;
  std::int64_t steps_per_epoch = 0;  // 0: no epochs
};

/// What a step has told: its loss, and other scalars that the network has as outputs, such as a share of hits.
struct Told {
  double loss = 0;
  std::vector<std::pair<std::string, double>> others;
};

Told told_by(const Session& session, const std::vector<Tensor>& outputs);

/// Of a train step with a loss scale, what became of it in the last step.
class ScaleWatch {
 public:
  explicit ScaleWatch(const Pipeline& pipeline);

  bool is_on() const { return is_on_; }
  double scale() const { return scale_; }
  /// The gradients of the last step have overflowed, and nothing was updated.
  bool has_skipped() const { return has_skipped_; }

  /// Behind each step, on all ranks.
  void look(const Session& session);

 private:
  bool is_on_ = false;
  double scale_ = 0;
  bool has_skipped_ = false;
};

/// What recorded steps have told, as far as that was asked for.
struct Recorded {
  std::optional<TraceFigures> figures = {};
  std::optional<StepComparison> comparison = {};
};

class Reporter {
 public:
  /// Steps learn from `batch`.
  Reporter(const Arguments& arguments, const Length& length, BatchSize batch, Terminal& terminal);

  /// `rate` where it differs from step to step, `tokens` of the step where there are any.
  void step(std::int64_t step, const Told& told, const ScaleWatch& scale, double seconds,
            std::optional<double> rate, std::int64_t tokens);
  /// What held-out data have said.
  void evaluated(const Evaluated& e);
  /// A line about something that goes wrong beside the training.
  void told(const std::string& line);
  /// A checkpoint is whole on the disk, or could not be written.
  void saved(const Saved& saved);
  /// `saved in run1/step-00000012`, or that nothing is.
  std::string saved_text() const;
  /// How it ended otherwise than by its last step, after so many.
  void has_none_left(std::int64_t steps, bool has_page) const;
  void late(std::int64_t steps) const;
  void interrupted(std::int64_t steps) const;

  /// `misfit` is the last line, wherever lines for people go.
  void summary(const Session& session, const MemoryMarks& memory, const Recorded& recorded,
               const std::string& misfit);

  /// What it has told, for a page; of the memory nothing.
  TrainedRun run(bool is_interrupted) const;

 private:
  void print_step(std::int64_t step, const Told& told, const ScaleWatch& scale, double seconds,
                  std::optional<double> rate, std::int64_t tokens);
  double median_seconds() const;
  /// To whoever watches the terminal.
  void tell_progress(std::int64_t step, const Told& told, double seconds);

  Length length_;
  BatchSize batch_;
  Terminal& terminal_;
  bool is_json_;
  std::int64_t every_;
  Progress* progress_;
  std::unique_ptr<Doing> doing_;  // from the first step on
  std::string last_saved_;
  std::vector<double> seconds_;
  std::vector<std::int64_t> steps_;
  std::vector<double> losses_;  // of these
};

}  // namespace shardwright
