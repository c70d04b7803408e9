// What a rank does in a step, and when: recorded while it runs, read afterwards.
//
// A recorder is a list with room for all that a step can add, so that recording neither allocates nor locks; without
// one the executor asks once per action whether there is one. Times are nanoseconds of the machine's monotonic clock,
// which all processes of a machine share.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
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

class Recorder {
 public:
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  /// Room for so many more events.
  void reserve(std::size_t more) { events_.reserve(events_.size() + more); }
  void add(const TraceEvent& event) { events_.push_back(event); }
  /// Runs `work` and records it.
  template <class F>
  void time(TraceEvent event, F work) {
    event.begin = now();
    work();
    event.end = now();
    add(event);
  }
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  std::vector<TraceEvent> events_;
};

/// Recorded steps: the events of each rank, in the order in which they ended.
struct StepTrace {
  std::vector<std::vector<TraceEvent>> ranks;
};

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

/// The clock of this process: equal numbers are of one machine since it was started.
std::int64_t clock_name();

/// Events as numbers, to send them between processes.
std::vector<std::int64_t> packed(std::span<const TraceEvent> events);
std::vector<TraceEvent> unpacked(std::span<const std::int64_t> numbers);

}  // namespace shardwright
