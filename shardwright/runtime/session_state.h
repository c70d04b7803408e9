// What a session is made of, for the files that make one: session.cpp, session_checks.cpp.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "shardwright/runtime/driver.h"
#include "shardwright/runtime/failures.h"
#include "shardwright/runtime/gather.h"
#include "shardwright/runtime/kept.h"
#include "shardwright/runtime/session.h"
#include "shardwright/runtime/session_statistics.h"

namespace shardwright {

struct Session::State {
  using Mode = Driver::Mode;

  Pipeline pipeline;
  SessionStatistics statistics;
  KeptValues kept;
  StepTensors tensors;
  std::deque<Rank> ranks;          // those in this process
  std::optional<Gather> gather;    // if others are in other processes
  std::optional<Reduced> largest;  // likewise: the largest of a number of each rank
  bool is_recording = false;
  int steps = 0;  // the number of the next one
  FailureFolder failures;
  const std::atomic<bool>* stop;  // of the options
  Driver driver;                  // last: its threads use all of the above

  State(Pipeline p, std::vector<std::unique_ptr<Communicator>> communicators, Mode mode,
        const SessionOptions& options);

  bool has_others() const { return driver.mode() == Mode::caller; }

  /// In a handler: of an error that all ranks end with.
  [[noreturn]] void failed() const;
  /// In a handler of one that was waited for: told to the others.
  [[noreturn]] void gave_up(std::string_view what, const TimedOut& e) const;

  /// What all ranks do at the same time outside of a step.
  template <class Work>
  auto together(std::string_view what, Work work) const {
    try {
      return work();
    } catch (const TimedOut& e) {
      gave_up(what, e);
    } catch (const Error&) {
      failed();
    }
  }

  void set(const Kept& value, const Tensor& part, const Box& where);
  /// Of ranks of this process alone.
  Tensor get(int stage, ValueId v, const Box& where);
  /// `bind` takes the batch, or throws.
  std::vector<Tensor> step(const std::function<void()>& bind);
  /// What another rank of the session does, for people.
  std::string words_of(int rank, const StepPlace& place) const;
};

}  // namespace shardwright
