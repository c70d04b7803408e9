// The signs that a process gives to the others of its host, and its waiting where MPI itself waits.
//
// A thread of its own gives a sign every now and then, whatever the rank does meanwhile: a process that is stopped gives
// none. MPI's own waiting (joining, making windows, leaving) cannot be broken off, so the same thread looks after the
// others there, and if one is given up it says so and ends the process, upon which mpirun ends all.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shardwright/runtime/communicator/vigil.h"

namespace shardwright {

class Heartbeat {
 public:
  using Busy = Vigil::Busy;

  /// Of rank `self` of `ranks`, before any of them is seen.
  Heartbeat(int self, int ranks, std::chrono::nanoseconds timeout);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// All processes meet, within calls of MPI.
  void join();
  /// Likewise; none is seen afterwards.
  void leave();

  std::chrono::nanoseconds timeout() const { return timeout_; }
  /// From now on; all processes do so at the same time.
  void set_timeout(std::chrono::nanoseconds timeout);
  /// What these ranks of the run show; null: those of other hosts.
  std::vector<Presence*> presences(std::span<const int> ranks) const;

  /// While it lives this process waits for others within MPI, all of which have to come; `what`: for people. One in
  /// another has no effect.
  class Call {
   public:
    Call(Heartbeat& heartbeat, std::string_view what, Busy busy = Busy::for_a_while);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Heartbeat& heartbeat_;
    bool is_outer_;
  };

 private:
  void live(const std::stop_token& stop);
  void look();
  [[noreturn]] void end(const std::string& why);
  void see(std::vector<Presence*> ranks);

  struct Shared;  // with the processes of this host

  const int self_;
  std::chrono::nanoseconds timeout_;
  Presence unseen_;  // shows what this process does while nobody sees it
  std::unique_ptr<Shared> shared_;
  std::mutex mutex_;                   // guards what follows
  std::vector<Presence*> ranks_;       // of the run, with null for those that are not seen
  std::unique_ptr<Vigil> vigil_;       // of calls
  std::string_view call_;              // empty: none
  Busy busy_ = Busy::for_a_while;      // of the call
  bool is_new_ = false;                // the thread has not looked since there is another vigil
  std::condition_variable_any wakes_;  // the thread, where it has to look at once
  std::jthread thread_;                // last: it uses all of the above
};

}  // namespace shardwright
