// Starts the ranks of an MPI run, and says in one line why it ended if a rank was lost.
//
// mpirun tells of lost ranks in frames of several lines; those that this file knows are replaced by one line,
// and everything else passes. Ranks say themselves what went wrong, so a rank's exit status needs no line.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

/// Of this process, if Open MPI's mpirun has started it, and of how many.
std::optional<int> launched_rank();
int launched_ranks();
/// Of them those on this machine.
int launched_ranks_here();

/// Something else that has started several copies of this program, none of which can join the others.
struct OtherLauncher {
  std::string_view name;
  std::string_view variable;  // that tells the rank
  int rank = 0;               // of this copy
};
std::optional<OtherLauncher> other_launcher();

/// Among processes that were started together, whoever did; 0 if this one is alone.
int rank_of_process();

struct Launch {
  int ranks = 1;
  std::vector<std::string> words;                // of this program's command line, without its name
  std::function<int()> interrupts;               // how often the user has wanted to stop; asked now and then
  std::function<void(std::string_view)> output;  // takes what the ranks print; may throw
  std::function<void(std::string_view)> errors;  // takes what there is to say for people
};

/// Runs this program as so many processes under mpirun; returns mpirun's exit status, or that of a lost rank (75) if one was ended by a signal. Interrupts are passed on to the
/// ranks, the first as SIGUSR1, the second as SIGUSR2, and the third one ends them.
/// Throws: Error of kind io if mpirun cannot be started; what `output` throws, once the ranks have ended.
int launch(const Launch& launch);

/// Turns what mpirun writes to stderr into what the user sees.
class MpirunMessages {
 public:
  /// What to show for the next line, with its newline; often nothing.
  std::string take(std::string_view line);
  /// What is left when mpirun has ended.
  std::string finish();
  /// One of them was ended by a signal.
  bool has_lost_rank() const { return has_lost_rank_; }

 private:
  bool is_in_frame_ = false;
  bool has_lost_rank_ = false;
  std::string frame_;
};

}  // namespace shardwright
