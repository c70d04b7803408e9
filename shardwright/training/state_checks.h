// Numbers that lie: copies of a value that have come apart, and steps that do not give the same twice. Either means a
// machine that computes wrongly, unless a program does so on purpose, and ends the run as one that has lost a rank.
#pragma once

#include <cstdint>
#include <functional>

#include "shardwright/runtime/session.h"
#include "shardwright/training/train.h"

namespace shardwright {

class StateChecks {
 public:
  /// Of a run that begins with step `first`; both outlive it.
  StateChecks(Session& session, const TrainingOptions& options, std::int64_t first)
      : session_(session), options_(options), first_(first) {}

  /// Whether anything is looked at behind the step.
  bool looks_at(std::int64_t step) const;
  /// `run` twice, from the same state; all that comes of it is that of the second time, which alone `is_recorded`.
  /// Throws: Error of kind timeout if the two differ, which says on which rank and in what.
  std::vector<Tensor> twice(std::int64_t step, bool is_recorded,
                            const std::function<std::vector<Tensor>()>& run);
  /// Throws: Error of kind timeout if replicas differ, which names the value and ranks.
  StateChecked look(std::int64_t step) const;

 private:
  [[noreturn]] void lost(const std::string& own) const;

  Session& session_;
  const TrainingOptions& options_;
  std::int64_t first_;
};

}  // namespace shardwright
