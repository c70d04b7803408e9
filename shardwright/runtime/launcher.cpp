#include "shardwright/runtime/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <regex>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

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
[[noreturn]] void become(std::vector<std::string> words, int error_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  dup2(error_pipe, STDERR_FILENO);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);  // mpirun would read what a calling script reads from
  std::vector<char*> pointers;
  for (std::string& w : words) pointers.push_back(w.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  _exit(127);
}

void show(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

/// Shows what comes from `pipe` until it ends; passes an interrupt on to `child`.
void relay(int pipe, pid_t child, const std::function<bool()>& is_interrupted) {
  MpirunMessages messages;
  std::string pending;
  bool is_told = false;
  for (;;) {
    if (!is_told && is_interrupted()) is_told = kill(child, SIGTERM) == 0;
    pollfd readable{.fd = pipe, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, 100) <= 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t n = read(pipe, buffer.data(), buffer.size());
    if (n < 0) continue;
    if (n == 0) break;
    pending.append(buffer.data(), static_cast<std::size_t>(n));
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      const std::string shown = messages.take(std::string_view(pending).substr(0, end));
      pending.erase(0, end + 1);
      if (!is_told) show(shown);
    }
  }
  if (!is_told) show(messages.finish() + pending);
}

}  // namespace

std::optional<int> launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"})
    if (const char* value = std::getenv(name))
      if (const auto rank = to_integer(value)) return static_cast<int>(*rank);
  return std::nullopt;
}

int launch(const Launch& launch) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw io_error("mpirun: there is no pipe for its messages");
  const pid_t child = fork();
  if (child < 0) throw io_error("mpirun: no process can be started");
  if (child == 0) {
    ::close(ends[0]);
    become(mpirun_words(launch), ends[1]);
  }
  ::close(ends[1]);
  relay(ends[0], child, launch.is_interrupted);
  ::close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  if (WEXITSTATUS(status) == 127)
    throw io_error("mpirun is not installed; scripts/install.sh build installs it");
  return WEXITSTATUS(status);
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
  if (std::regex_search(frame, match, killed))
    return fmt::format("shardwright: rank {} on {} was ended by signal {}\n", match.str(1), match.str(2),
                       match.str(3));
  for (const char* known : {"exited with non-zero status", "a non-zero exit code", "MPI_ABORT was invoked"})
    if (frame.find(known) != std::string::npos) return "";
  return frame;
}

}  // namespace shardwright
