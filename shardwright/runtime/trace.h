// What a rank does in a step, and when: recorded while it runs, read afterwards.
//
// A recorder is a list with room for all that a step can add, so that recording neither allocates nor locks; without
// one the executor asks once per action whether there is one. Times are nanoseconds of the machine's monotonic clock,
// which all processes of a machine share.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <span>
#include <vector>

#include "shardwright/simulate/step_trace.h"

namespace shardwright {

/// What times are: of the machine's clock, or what the rank's own thread has had of a core, which other processes do not
/// lengthen but in which ranks cannot be compared.
enum class TraceClock : std::uint8_t { machine, thread };

class Recorder {
 public:
  explicit Recorder(TraceClock clock = TraceClock::machine) : clock_(clock) {}

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
    event.begin = time();
    work();
    event.end = time();
    add(event);
  }
  /// Of an event that has been added.
  void set_times(std::size_t event, std::int64_t begin, std::int64_t end) {
    events_[event].begin = begin, events_[event].end = end;
  }
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  std::int64_t time() const {
    if (clock_ == TraceClock::machine) return now();
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }

  TraceClock clock_;
  std::vector<TraceEvent> events_;
};

/// The clock of this process: equal numbers are of one machine since it was started.
std::int64_t clock_name();

/// Events as numbers, to send them between processes.
std::vector<std::int64_t> packed(std::span<const TraceEvent> events);
std::vector<TraceEvent> unpacked(std::span<const std::int64_t> numbers);

}  // namespace shardwright
