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

/// Where ranks run that are not all on this host, and who starts them there.
struct LaunchHosts {
  std::vector<std::string> of_ranks;  // by rank; empty: all here, or where a batch system says
  std::string net;                    // that messages of the job take; empty: any
};

struct Launch {
  using Take = std::function<void(std::optional<int> rank, std::string_view text)>;

  int ranks = 1;
  std::vector<std::string> words;  // of the program, its name in front
  LaunchHosts hosts = {};
  bool tells_ranks_apart = false;   // `output` and `errors` are told whose a line is
  std::function<int()> interrupts;  // how often the user has wanted to stop; asked now and then
  Take output;                      // takes what the ranks print; may throw
  Take errors;                      // takes what there is to say for people; likewise
  std::function<std::optional<std::string>()> lost =
      {};  // asked now and then: why the job has to end, in words
  std::function<void(const std::string& job_folder)> begins = {};  // called in front of mpirun
};

/// How a job has ended.
struct LaunchEnd {
  int status = 0;                       // mpirun's, or that of a lost rank (75) if a rank or a host was lost
  std::string why = {};                 // what was said of it
  bool is_unreached = false;            // a host was not there from the beginning
  std::vector<std::string> hosts = {};  // that were lost, or not there, as the launch calls them
};

/// Runs a program as so many processes under mpirun. Interrupts are passed on to the ranks, the first as SIGUSR1, the
/// second as SIGUSR2, and the third one ends them. Nothing of the job is left on any host.
/// Throws: Error of kind io if mpirun cannot be started; what `output` and `errors` throw, once the ranks have ended.
LaunchEnd launch(const Launch& launch);

/// This program with these words.
std::vector<std::string> own_program(const std::vector<std::string>& words);

/// How lines begin that tell of broken connections.
constexpr std::string_view network_words = "mpirun: the network: ";

/// Turns what mpirun writes to stderr into what the user sees.
class MpirunMessages {
 public:
  /// What to show for the next line, with its newline; often nothing.
  std::string take(std::string_view line);
  /// What is left when mpirun has ended.
  std::string finish();
  /// One of them was ended by a signal.
  bool has_lost_rank() const { return has_lost_rank_; }
  /// What held the ranks of a host is gone.
  bool has_lost_host() const { return has_lost_host_; }
  /// Of such, and of those that could not be begun with, the names.
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// A host could not be begun with.
  bool has_unreached_host() const { return has_unreached_host_; }

 private:
  std::string in_one_line(const std::string& frame);

  bool is_in_frame_ = false;
  bool has_lost_rank_ = false, has_lost_host_ = false, has_unreached_host_ = false;
  std::string frame_;
  std::vector<std::string> hosts_;
};

}  // namespace shardwright
