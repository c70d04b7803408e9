// Signals that ask the program to stop: SIGINT, SIGTERM and SIGHUP. To ranks, mpirun passes on that there has been one as
// SIGUSR1, and two as SIGUSR2, however often.
//
// The first ends the program at once, with status 130 and nothing half-written; but a verb may be patient: while it
// trains, the first lets the step end, the second stops between two nodes, and the third ends the program at once.
#pragma once

#include <atomic>
#include <cstdint>

namespace shardwright {

constexpr int interrupted_status = 130;

struct CatchOptions {
  bool is_quiet = false;  // others say what there is to say
  bool is_rank = false;   // mpirun sends SIGTERM when another rank is lost, too: nothing is said about it
};
/// From here on the signals are caught; SIGHUP only if it is not ignored on purpose (nohup). That scripts have what they
/// run in the background ignore SIGINT is no purpose.
void catch_interrupts(CatchOptions options = {});

/// How many have come.
int interrupts();

/// As long as it lives, the program goes on after as many interrupts; whoever made it acts on them.
class Patience {
 public:
  explicit Patience(int interrupts);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
};

/// Between these, the first interrupt is answered with the step that will be finished; one that came before is then.
void step_begins(std::int64_t step);
void step_ends();

/// True from the second interrupt on.
const std::atomic<bool>& stops_at_once();

}  // namespace shardwright
