// Who runs the ranks of this process: a thread each, which lives as long as the driver and is woken for each round of
// work; or the caller, who then has one rank here, the others being in other processes.
//
// When a rank fails, its peers are told and all of them stop: the round throws that rank's error, `rank R: ...`, and
// nothing runs afterwards.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "shardwright/runtime/communicator/wait.h"
#include "shardwright/runtime/rank.h"

namespace shardwright {

class Driver {
 public:
  enum class Mode { threads, caller };
  using Work = std::function<void(Rank&)>;

  /// `ranks` outlive it; one if the caller runs it. Throws: Error if threads cannot be started.
  Driver(std::deque<Rank>& ranks, Mode mode, std::chrono::nanoseconds timeout = usual_timeout);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  Mode mode() const { return mode_; }
  /// `work` on every rank; returns when all have done it. Callers of several threads take turns; `work` may not call it.
  /// A thread that never comes back cannot be left behind: once its peers have given it up and ten timeouts have gone
  /// again, the process ends, with the failure in a line on stderr and status 75.
  /// Throws: the first failure of any rank; if one was in another process, an Error of kind peer.
  void run(const Work& work);
  /// Likewise of what asks no other rank for anything, where `keep` has said so even behind a failure.
  void read(const Work& work);
  /// After a failure: whether what ranks keep is as it was before, and may be read.
  void keep(bool is_as_before);
  /// A rank has failed.
  bool has_stopped() const;
  /// Throws: Error if a rank has failed before, or in a process that was forked off, which has no threads of it.
  void check_usable() const;

 private:
  struct Failure {
    std::string message;
    ErrorKind kind = ErrorKind::user;
    bool is_ours = false;  // an InternalError
    std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now();
  };

  void live(Rank& rank, const std::stop_token& stop);
  void guarded(Rank& rank);
  void record(const Rank& rank, Failure f);
  void throw_failure() const;
  void end_if_given_up() const;
  void stop_threads();

  bool is_forked() const;

  std::deque<Rank>& ranks_;
  Mode mode_;
  std::chrono::nanoseconds timeout_;
  int process_;
  // Who raises `round` owns the work until `done` follows.
  std::mutex turn_;  // of those who call
  const Work* work_ = nullptr;
  Awaited round_;
  std::atomic<std::uint32_t> busy_{0};  // ranks that have not finished the round
  Awaited done_;                        // rounds finished

  mutable std::mutex mutex_;  // guards failure
  std::optional<Failure> failure_;
  bool keeps_ = false;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace shardwright
