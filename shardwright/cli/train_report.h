// What `train` prints: a line per step and the summary, for people or as JSON.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/base/progress.h"
#include "shardwright/cli/verb.h"
#include "shardwright/frontend/plan_page.h"
#include "shardwright/runtime/comparison.h"
#include "shardwright/runtime/memory_marks.h"
#include "shardwright/runtime/session.h"
#include "shardwright/runtime/trace_file.h"
#include "shardwright/training/train.h"

namespace shardwright {

/// What recorded steps have told, as far as that was asked for.
struct Recorded {
  std::optional<TraceFigures> figures = {};
  std::optional<StepComparison> comparison = {};
  bool is_asked = false;                         // for that; a page shows it anyway
  std::optional<double> routing_imbalance = {};  // of experts that devices share, in the last step
};

class Reporter {
 public:
  /// Steps learn from `batch`.
  Reporter(const Arguments& arguments, const Length& length, BatchSize batch, Terminal& terminal);

  /// Of what a loss may come that is not finite: data from the file `source`, if it is one; and where a file of initial
  /// parameters holds infinity, if one does.
  void suspect(std::string source, std::string infinite_parameter);

  /// What happens in the loop; how it ended the command tells, behind the summary.
  void tell(const TrainingEvent& event);
  /// How it ended otherwise than by its last step.
  void has_none_left(std::int64_t steps, bool has_page) const;
  void late(std::int64_t steps) const;
  void interrupted(std::int64_t steps) const;

  /// `misfit` is the last line, wherever lines for people go.
  void summary(const Session& session, const MemoryMarks& memory, const Recorded& recorded,
               const std::string& misfit);

  /// `saved in run1/step-00000012`, or that nothing is.
  std::string saved_text() const;
  /// What it has told, for a page; of the memory nothing.
  TrainedRun run(bool is_interrupted) const;

 private:
  void begin() { clock_at_begin_ = std::clock(); }
  void step(const StepDone& done);
  void print_step(const StepDone& done);
  void not_finite(const LossNotFinite& loss);
  void spiked(const LossSpiked& e);
  void checked(const StateChecked& e);
  void evaluated(const Evaluated& e);
  void saved(const Saved& saved);
  double median_seconds() const;
  /// To whoever watches the terminal.
  void tell_progress(const StepDone& done);

  Length length_;
  BatchSize batch_;
  Terminal& terminal_;
  bool is_json_;
  std::int64_t every_;
  Progress* progress_;
  std::unique_ptr<Doing> doing_;  // from the first step on
  std::string source_, infinite_parameter_;
  std::string last_saved_;
  std::vector<double> seconds_;
  std::clock_t clock_at_begin_ = 0;  // of the process, all its threads; when the step began
  double cpu_seconds_ = 0;           // of all steps
  std::vector<std::int64_t> steps_;
  std::vector<double> losses_;  // of these
};

}  // namespace shardwright
