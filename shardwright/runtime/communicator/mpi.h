// Ranks that are processes started by mpirun or srun, on one host or several.
//
// Ranks of one host read each other's memory (shared.h) in windows of MPI-3: they meet on counters in a control
// window, and arenas are windows too. Between hosts messages go from rank to rank: moves send each piece from
// its holder; a reduction is taken inside each host, in the order of its ranks, and then over the hosts by the
// rank that wants it, in the order of the hosts. Results are the same bits on every rank and in every run; on
// one host they are those of threads. What an all_gather moves crosses the network once for each host; any other piece
// that several ranks of a host want, once for each of them.
//
// Who wants what from other hosts is exchanged once, when a transfer is prepared.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardwright/runtime/agreement.h"
#include "shardwright/runtime/communicator/communicator.h"
#include "shardwright/runtime/communicator/heartbeat.h"

namespace shardwright {

class SharedMemory;

/// This process as a rank of an MPI run, from joining to leaving. One per process; used by one thread at a time.
class MpiProcess {
 public:
  enum class Joining { may_take_long, together };

  /// Joins; `together`: as the first thing that all processes of the run do. Handlers of signals stay as they are.
  /// `timeout`: of all waiting for others, vigil.h.
  explicit MpiProcess(std::chrono::nanoseconds timeout = usual_timeout,
                      Joining joining = Joining::may_take_long);
  /// Leaves when all others leave.
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  int rank() const;
  int size() const;

  /// A communicator of `ranks`, ascending, which they ask for at the same time; null on others. There is
  /// room for `transfers` that each rank prepares with others of its host; one more throws an Error on all its members.
  /// When a rank fails, those on its host are told; `end_all` ends the rest. Communicators of the same ranks reach what any of them has
  /// allocated, as long as that one is there.
  std::unique_ptr<Communicator> communicator(std::span<const int> ranks, std::size_t transfers = 10000);
  /// Of the first `size` ranks.
  std::unique_ptr<Communicator> communicator(int size, std::size_t transfers = 10000);

  /// What the lowest rank that has an error says, on all ranks; nothing if none has one.
  std::optional<std::string> first_error(const std::optional<std::string>& own);

  /// How the lowest rank that was not told as rank 0 differs from it, on all ranks; nothing if all agree.
  std::optional<std::string> disagreement(std::span<const Agreement> own);

  /// By rank: the number of its host, ascending with the host's first rank. All processes ask at the same time.
  std::vector<int> hosts();
  /// What each says, by rank, on all ranks.
  std::vector<std::string> said_by_all(const std::string& own);
  /// What `rank` says, on all ranks.
  std::string said_by(int rank, const std::string& own);

  /// Ends the whole run with `status`.
  [[noreturn]] void end_all(int status);

  /// Whether the others are still there; see Heartbeat::Call.
  Heartbeat& heartbeat() { return heartbeat_; }

 private:
  Heartbeat heartbeat_;
  std::map<std::vector<int>, std::weak_ptr<SharedMemory>>
      memories_;  // of communicators that are there, by ranks
};

}  // namespace shardwright
