// When ranks did what in a step: recorded while it ran (runtime/trace.h), or simulated.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "shardwright/lower/step.h"

namespace shardwright {

enum class Activity : std::uint8_t {
  step,         // the whole of it; its number stands for what the instruction is about
  instruction,  // of the rank's list or of one of its sections
  progress      // behind an instruction: moves on what has been started
};

struct TraceEvent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Instruction instruction;
  Activity activity = Activity::step;
  Phase phase = Phase::forward;  // in which it ran

  bool operator==(const TraceEvent&) const = default;
  double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
};

/// Steps: the events of each rank, in nanoseconds and in the order in which they ended. Of a simulation only ranks that
/// stand for others have any.
struct StepTrace {
  std::vector<std::vector<TraceEvent>> ranks;
};

/// Those with events.
std::vector<int> ranks_of(const StepTrace& trace);

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
};
/// Of each recorded step, by its number: from the first rank's begin to the last one's end.
std::map<int, Interval> steps_of(const StepTrace& trace);

/// Of recorded steps.
struct TraceFigures {
  /// In which a rank waits for collectives, or does their work, instead of computing: per step, of the rank with most.
  double exposed_communication_seconds = 0;
  /// Of the ranks' time: waiting for other stages, and being done while others are not.
  double bubble_fraction = 0;
};
TraceFigures figures_of(const Pipeline& pipeline, const StepTrace& trace);

}  // namespace shardwright
