#include "shardwright/runtime/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <regex>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/communicator/vigil.h"

namespace shardwright {
namespace {

std::string own_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  require(length > 0, "the program's own path is unknown");
  return {path.data(), static_cast<std::size_t>(length)};
}

std::vector<std::string> mpirun_words(const Launch& launch) {
  // Yielding must be asked for: with more ranks than cores, spinning costs milliseconds a message.
  std::vector<std::string> out{"mpirun",
                               "-n",
                               fmt::to_string(launch.ranks),
                               "--oversubscribe",
                               "--allow-run-as-root",
                               "--bind-to",
                               "none",
                               "--mca",
                               "mpi_yield_when_idle",
                               "1",
                               "-x",
                               "OMP_NUM_THREADS=1",
                               own_path()};
  out.insert(out.end(), launch.words.begin(), launch.words.end());
  return out;
}

/// Runs in the child; does not return.
[[noreturn]] void become(std::vector<std::string> words, int output_pipe, int error_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);  // Ctrl-C is for the parent: mpirun would kill the ranks at once
  dup2(output_pipe, STDOUT_FILENO);
  dup2(error_pipe, STDERR_FILENO);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);  // mpirun would read what a calling script reads from
  std::vector<char*> pointers;
  for (std::string& w : words) pointers.push_back(w.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  _exit(127);
}

/// mpirun, and what comes from it.
class Relay {
 public:
  Relay(const Launch& launch, pid_t child, int output, int errors)
      : launch_(launch), child_(child), pipes_{pollfd{output, POLLIN, 0}, pollfd{errors, POLLIN, 0}} {}

  /// Shows what comes until it ends, and passes interrupts on. Throws: what the output throws.
  void run() {
    while (pipes_[0].fd >= 0 || pipes_[1].fd >= 0) {
      pass_on_interrupts();
      if (poll(pipes_.data(), pipes_.size(), 100) <= 0) continue;
      if (pipes_[0].revents != 0) take(pipes_[0], [this](std::string_view text) { print(text); });
      if (pipes_[1].revents != 0) take(pipes_[1], [this](std::string_view text) { add_errors(text); });
    }
    show_error(messages_.finish() + pending_);
    if (failure_) std::rethrow_exception(failure_);
  }

  bool has_lost_rank() const { return messages_.has_lost_rank(); }

  /// A rank that is killed in its first moments says nothing, and mpirun takes it for one that has.
  void explain(int status) {
    if (status != 0 && passed_on_ == 0 && !has_said_why_)
      launch_.errors(
          fmt::format("shardwright: a rank ended before it could say why; mpirun's status is {}\n", status));
  }

 private:
  template <class F>
  static void take(pollfd& pipe, F use) {
    std::array<char, 4096> buffer{};
    const ssize_t n = read(pipe.fd, buffer.data(), buffer.size());
    if (n > 0) return use({buffer.data(), static_cast<std::size_t>(n)});
    if (n < 0 && errno == EINTR) return;
    ::close(pipe.fd);
    pipe.fd = -1;  // poll leaves it out
  }

  /// Again and again, because mpirun loses what comes before the ranks are there. The third interrupt ends them.
  void pass_on_interrupts() {
    constexpr auto pause = std::chrono::milliseconds(200);
    const auto now = std::chrono::steady_clock::now();
    const int wanted = launch_.interrupts();
    if (wanted == 0 || (wanted == passed_on_ && now - last_passed_on_ < pause)) return;
    if (passed_on_ >= 3) return;  // asked again, mpirun would leave before the ranks have ended
    constexpr std::array signals{SIGUSR1, SIGUSR2, SIGTERM};
    kill(child_, signals[static_cast<std::size_t>(std::min(wanted, 3) - 1)]);
    passed_on_ = wanted;
    last_passed_on_ = now;
  }

  void print(std::string_view text) {
    if (failure_) return;
    try {
      launch_.output(text);
    } catch (...) {
      failure_ = std::current_exception();
      kill(child_, SIGTERM);
    }
  }

  void add_errors(std::string_view text) {
    pending_.append(text);
    for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n')) {
      const std::string shown = messages_.take(std::string_view(pending_).substr(0, end));
      pending_.erase(0, end + 1);
      show_error(shown);
    }
  }

  /// What mpirun says of ranks that were told to end is left out.
  void show_error(const std::string& text) {
    const bool is_ours = text.starts_with("shardwright: ");
    has_said_why_ = has_said_why_ || is_ours;
    if (!failure_ && (passed_on_ == 0 || is_ours)) launch_.errors(text);
  }

  const Launch& launch_;
  pid_t child_;
  std::array<pollfd, 2> pipes_;
  MpirunMessages messages_;
  std::string pending_;
  int passed_on_ = 0;
  bool has_said_why_ = false;
  std::chrono::steady_clock::time_point last_passed_on_;
  std::exception_ptr failure_;
};

std::optional<int> number_in(const char* variable) {
  const char* value = std::getenv(variable);
  const auto number = value ? to_integer(value) : std::nullopt;
  if (!number || *number < 0 || *number > INT_MAX) return std::nullopt;
  return static_cast<int>(*number);
}

/// How a launcher tells its processes which of how many they are.
struct LauncherVariables {
  std::string_view name;
  const char* rank;
  const char* size;
  const char* needed = nullptr;  // without it, rank 0 is alone
};

// A batch job's script has a rank and a number of tasks, too, but is in no step.
constexpr std::array other_launchers{
    LauncherVariables{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"},
    LauncherVariables{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"},
    LauncherVariables{"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
    LauncherVariables{"flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    LauncherVariables{"MVAPICH's mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    LauncherVariables{"another MPI's mpiexec", "PMI_RANK", "PMI_SIZE"},
    LauncherVariables{"torchrun", "RANK", "WORLD_SIZE"},
};
// These do not say how many there are.
constexpr std::array launchers_without_size{LauncherVariables{"PALS' mpiexec", "PALS_RANKID", nullptr},
                                            LauncherVariables{"a PMIx launcher", "PMIX_RANK", nullptr}};

}  // namespace

std::optional<int> launched_rank() { return number_in("OMPI_COMM_WORLD_RANK"); }

int launched_ranks() { return launched_rank() ? number_in("OMPI_COMM_WORLD_SIZE").value_or(1) : 1; }

int launched_ranks_here() {
  return launched_rank() ? number_in("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(launched_ranks()) : 1;
}

std::optional<OtherLauncher> other_launcher() {
  if (launched_rank()) return std::nullopt;  // mpirun itself may have been started by srun
  for (const LauncherVariables& launcher : other_launchers) {
    const auto rank = number_in(launcher.rank), size = number_in(launcher.size);
    if (!rank || !size || (*rank == 0 && launcher.needed && !std::getenv(launcher.needed))) continue;
    if (*size > 1) return OtherLauncher{launcher.name, launcher.rank, *rank};
    return std::nullopt;  // it says that there is one
  }
  for (const LauncherVariables& launcher : launchers_without_size)
    if (const auto rank = number_in(launcher.rank)) return OtherLauncher{launcher.name, launcher.rank, *rank};
  return std::nullopt;
}

int rank_of_process() {
  if (const auto rank = launched_rank()) return *rank;
  const auto other = other_launcher();
  return other ? other->rank : 0;
}

int launch(const Launch& launch) {
  std::array<int, 2> output{}, errors{};
  if (pipe2(output.data(), O_CLOEXEC) != 0 || pipe2(errors.data(), O_CLOEXEC) != 0)
    throw io_error("mpirun: there is no pipe for its messages");
  std::signal(SIGCHLD, SIG_DFL);  // where a parent had it ignored, how a child ended is lost
  const pid_t child = fork();
  if (child < 0) throw io_error("mpirun: no process can be started");
  if (child == 0) become(mpirun_words(launch), output[1], errors[1]);
  ::close(output[1]);
  ::close(errors[1]);
  Relay relay(launch, child, output[0], errors[0]);
  const auto wait_for = [&] {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) require(errno == EINTR, "mpirun cannot be waited for");
    return status;
  };
  try {
    relay.run();
  } catch (...) {
    wait_for();
    throw;
  }
  const int status = wait_for();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw io_error("mpirun is not installed; scripts/install.sh build installs it");
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  relay.explain(code);
  return relay.has_lost_rank() ? lost_rank_status : code;
}

std::string MpirunMessages::take(std::string_view line) {
  if (line.starts_with("shardwright: ")) return fmt::format("{}\n", line);  // a rank's, even inside a frame
  if (line.size() >= 60 && line.find_first_not_of('-') == std::string_view::npos) {
    is_in_frame_ = !is_in_frame_;
    if (is_in_frame_) return "";
    return finish();
  }
  if (is_in_frame_) {
    frame_.append(line).append("\n");
    return "";
  }
  // How many frames like the last one were left out.
  if (line.starts_with("[") && line.find("help") != std::string_view::npos) return "";
  return fmt::format("{}\n", line);
}

std::string MpirunMessages::finish() {
  const std::string frame = std::exchange(frame_, "");
  static const std::regex killed(
      R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+ \(.*\)))");
  std::smatch match;
  const bool is_killed = std::regex_search(frame, match, killed);
  has_lost_rank_ = has_lost_rank_ || is_killed;
  if (is_killed)
    return fmt::format("shardwright: rank {} on {} was ended by signal {}\n", match.str(1), match.str(2),
                       match.str(3));
  for (const char* known : {"exited with non-zero status", "a non-zero exit code", "MPI_ABORT was invoked"})
    if (frame.find(known) != std::string::npos) return "";
  return frame;
}

}  // namespace shardwright
