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

/// Of this process in an MPI run, if mpirun or srun has started it.
std::optional<int> launched_rank();

struct Launch {
  int ranks = 1;
  std::vector<std::string> words;        // of this program's command line, without its name
  std::function<bool()> is_interrupted;  // the user wants to stop; asked now and then
};

/// Runs this program as so many processes under mpirun; returns mpirun's exit status.
/// Throws: Error of kind io if mpirun cannot be started.
int launch(const Launch& launch);

/// Turns what mpirun writes to stderr into what the user sees.
class MpirunMessages {
 public:
  /// What to show for the next line, with its newline; often nothing.
  std::string take(std::string_view line);
  /// What is left when mpirun has ended.
  std::string finish();

 private:
  bool is_in_frame_ = false;
  std::string frame_;
};

}  // namespace shardwright
