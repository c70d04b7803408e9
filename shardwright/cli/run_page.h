// The page of `train --html`: the plan that trains, and what the run has told.
#pragma once

#include <iosfwd>
#include <string>

#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/verb.h"
#include "shardwright/explain/binding.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

class RunPage {
 public:
  /// `arguments` outlive it. `bound_of` is asked when the run has ended by itself; empty: nothing is known of how the plan
  /// was found.
  RunPage(const Arguments& arguments, Plan plan, Evaluation expected, StepReport told, BatchSize batch,
          BoundOf bound_of)
      : arguments_(arguments),
        plan_(std::move(plan)),
        expected_(std::move(expected)),
        told_(std::move(told)),
        batch_(std::move(batch)),
        bound_of_(std::move(bound_of)) {}

  /// All processes do so at the same time; that of the first rank writes it. Told where that fails: the run is whole
  /// without it.
  void write(const Session& session, TrainedRun run, std::ostream& err) const;

 private:
  const Arguments& arguments_;
  Plan plan_;
  Evaluation expected_;
  StepReport told_;
  BatchSize batch_;
  BoundOf bound_of_;
};

}  // namespace shardwright
