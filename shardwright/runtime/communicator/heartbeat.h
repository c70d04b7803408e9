// The signs that a process gives to the others, and its waiting where MPI itself waits.
//
// A thread of its own gives a sign every now and then, whatever the rank does meanwhile: a process that is stopped gives
// none. MPI's own waiting (joining, making windows, leaving) cannot be broken off, so the same thread looks after the
// others there, and if one is given up it says so and ends the process, upon which mpirun ends all.
//
// The signs of processes on other hosts come as datagrams (host_signs.h). A process of this host that ends without having
// said why, or one elsewhere whose port is closed, is dead: the first to notice says so, with what it was doing; ranks
// that wait are told, write what they did, and all of them end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shardwright/runtime/communicator/death_watch.h"
#include "shardwright/runtime/communicator/host_signs.h"
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
  /// What these ranks of the run show; null: those of other hosts from which no signs can come.
  std::vector<Presence*> presences(std::span<const int> ranks) const;
  Elsewhere elsewhere(std::span<const int> ranks) const;

  /// A communicator of this process, from its beginning to its end: told when a rank elsewhere has failed, or one has died.
  /// Returns a number for the sessions of the places that its rank goes through.
  using Failed = std::function<void(const std::string& why)>;
  int add(const void* communicator, Failed failed);
  void remove(const void* communicator);
  /// How places of its session are put into words.
  void describe_by(const void* communicator, StepPlaceWords words);
  /// `, last at step 3, %y = relu`; nothing where that is not known.
  std::string last_place(int rank);

  /// Tells processes of other hosts that this rank has failed.
  void pass_on(const std::string& failure);
  /// This process ends the run, with `status`, at the latest after some seconds by itself, and says why.
  void begin_end(int status);

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
  /// A communicator.
  struct Member {
    int session = 0;
    Failed failed;
    StepPlaceWords words = {};
  };

  void live(const std::stop_token& stop);
  void beat(std::int64_t now);
  void talk(std::int64_t now);
  void hear();
  void look();
  void lost(int rank);
  void tell_members(const std::string& why);
  void end_in(std::chrono::nanoseconds time, int status);
  std::string words_of(int rank) const;
  std::string place_words(int rank) const;
  bool has_lost_host() const;
  Presence& first_here() const;
  [[noreturn]] void end(const std::string& why);
  void see(std::vector<Presence*> ranks);
  /// Whether they have come.
  bool wait_for_all_to_leave();

  struct Shared;  // with the processes of this host
  struct Work;    // that this process was seen to do

  const int self_;
  std::chrono::nanoseconds timeout_;
  Presence unseen_;  // shows what this process does while nobody sees it
  std::unique_ptr<Shared> shared_;
  std::unique_ptr<Work> work_;
  std::unique_ptr<HostSigns> signs_;
  std::mutex mutex_;               // guards what follows
  std::vector<Presence*> ranks_;   // of the run, with null for those that are not seen
  std::unique_ptr<Vigil> vigil_;   // of calls
  std::string_view call_;          // empty: none
  Busy busy_ = Busy::for_a_while;  // of the call
  DeathWatch deaths_;              // of others of this host
  std::vector<int> here_;          // ranks of this host
  std::map<const void*, Member> members_;
  int sessions_ = 0;
  std::string failure_;      // that other hosts are told
  std::int64_t sent_ = 0;    // when the last sign was
  bool is_leaving_ = false;  // from here on processes end as they should
  std::optional<std::int64_t> ends_at_;
  int end_status_ = 0;
  bool is_new_ = false;                // the thread has not looked since there is another vigil
  std::condition_variable_any wakes_;  // the thread, where it has to look at once
  std::jthread thread_;                // last: it uses all of the above
};

}  // namespace shardwright
