#include "shardwright/runtime/launch/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/launch/child.h"
#include "shardwright/runtime/launch/hosts.h"
#include "shardwright/runtime/launch/job_folder.h"
#include "shardwright/runtime/launch/wire.h"

namespace shardwright {
namespace {

constexpr std::string_view reached = "shardwright has reached ";  // and behind it how the host calls itself
constexpr int no_host_status = 255;                               // as ssh ends

std::atomic<bool> is_told_to_end{false};

void write_all(int stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(stream, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void say(const std::string& line) { write_all(STDERR_FILENO, "shardwright: " + line + "\n"); }

// mpirun hands its own settings down to its agent, where this program stands in the place of the user's.
constexpr const char* variable_of_shell = "SHARDWRIGHT_REMOTE_SHELL";

/// Open MPI's own settings say another than ssh. A password is not asked for: nobody could type it.
std::string remote_shell_text() {
  const char* known = std::getenv(variable_of_shell);
  if (known) return known;
  const char* agent = std::getenv("OMPI_MCA_plm_rsh_agent");
  const char* more = std::getenv(variable_of_arguments);
  const std::string words = agent && *agent
                                ? agent
                                : "ssh -x -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 "
                                  "-o ServerAliveCountMax=6";
  return more ? words + " " + more : words;
}

std::string last_line(const std::string& text) {
  std::string out;
  for (std::string_view line : split(text, '\n'))
    if (!trim(line).empty()) out = trim(line);
  return out;
}

/// `command`, which first tells where it is.
std::string telling(const std::string& command) {
  return fmt::format("printf '{}%s\\n' \"$(uname -n)\"; {}", reached, command);
}

/// A command that runs on another host, as seen from here.
class Remote {
 public:
  Remote(std::string host, std::string job_folder)
      : host_(std::move(host)), job_folder_(std::move(job_folder)) {}

  void add_output(std::string_view text) {
    if (is_reached_) return write_all(STDOUT_FILENO, text);
    seen_ += text;
    const std::size_t begin = seen_.find(reached), end = seen_.find('\n', begin);
    if (begin == seen_.npos || end == seen_.npos) return;
    is_reached_ = true;
    keep_name(seen_.substr(begin + reached.size(), end - begin - reached.size()));
    write_all(STDOUT_FILENO, std::string_view(seen_).substr(end + 1));
  }
  /// What a remote shell says before it has reached the host stands in the line that tells it.
  void add_errors(std::string_view text) {
    if (is_reached_) return write_all(STDERR_FILENO, text);
    said_ += text;
  }

  /// Says why, if the host or what ran there is lost. The launcher sees that mpirun ends.
  int end(int status) {
    if (is_told_to_end) return status;
    if (!is_reached_)
      say(fmt::format(
          "host {} cannot be reached: {}", host_,
          said_.empty() ? fmt::format("its shell ended with status {}", status) : last_line(said_)));
    else if (status == not_found_status)
      say(fmt::format(
          "host {} has no orted, which is in the package openmpi-bin; Open MPI has to be on all hosts",
          host_));
    else if (status >= 128)
      say(fmt::format("host {} is lost: what held its ranks ended with status {}", host_, status));
    else
      return status;
    return status;
  }

 private:
  /// mpirun will call the host by this one.
  void keep_name(const std::string& name) {
    if (name.find('/') == name.npos) write_file(name_file(job_folder_, name), host_);
  }

  std::string host_, job_folder_, seen_, said_;
  bool is_reached_ = false;
};

int over_shell(Remote remote, const std::string& host, const std::string& command) {
  std::vector<std::string> words = remote_shell();
  words.insert(words.end(), {host, telling(command)});
  std::optional<Child> shell;
  shell.emplace(words);
  int asked = 0;
  for (int rounds = 0; shell->output() >= 0 || shell->errors() >= 0;) {
    std::array<pollfd, 2> pipes{pollfd{shell->output(), POLLIN, 0}, pollfd{shell->errors(), POLLIN, 0}};
    poll(pipes.data(), pipes.size(), 100);
    if (pipes[0].revents) remote.add_output(shell->read_output());
    if (pipes[1].revents) remote.add_errors(shell->read_errors());
    // mpirun has ended: what runs there is about to.
    if (is_told_to_end && ++rounds == 20) shell->signal_all(asked++ == 0 ? SIGTERM : SIGKILL), rounds = 0;
    if (asked > 1 || (shell->status() && !pipes[0].revents && !pipes[1].revents)) break;
  }
  return remote.end(shell->wait());
}

int connected_to(const std::string& path) {
  const int out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  path.copy(address.sun_path, path.size());
  if (connect(out, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return out;
  ::close(out);
  return -1;
}

int by_node(int socket, Remote remote, const std::string& host, const std::string& command) {
  Wire wire(socket);
  wire.send({JobMessage::Kind::start,
             packed_fields({host, fmt::format("printf '{}\\n'; {}", trim(reached), command)})});
  bool is_told = false;
  while (!wire.has_ended()) {
    pollfd one{wire.descriptor(), POLLIN, 0};
    if (is_told_to_end && !std::exchange(is_told, true)) wire.send({JobMessage::Kind::stop, host});
    if (poll(&one, 1, 100) <= 0) continue;
    for (const JobMessage& m : wire.take()) {
      if (m.kind == JobMessage::Kind::output) remote.add_output(m.text);
      if (m.kind == JobMessage::Kind::errors) remote.add_errors(m.text);
      if (m.kind == JobMessage::Kind::ended)
        return remote.end(static_cast<int>(to_integer(m.text).value_or(no_host_status)));
    }
  }
  return no_host_status;  // the launcher knows why, and says it
}

}  // namespace

std::vector<std::string> remote_shell() {
  const std::string text = remote_shell_text();
  std::vector<std::string> out;
  for (std::string_view word : split(text, ' '))
    if (!word.empty()) out.emplace_back(word);
  return out;
}

std::string own_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  require(length > 0, "the program's own path is unknown");
  return {path.data(), static_cast<std::size_t>(length)};
}

// mpirun splits its agent at blanks, which the program's path may have; and where the folder lies programs may not be
// run. So a shell reads it. mpirun would put the arguments for another agent than this in front of the host.
std::string agent_of(const std::string& job_folder) {
  const std::string script = job_folder + "/agent";
  write_file(script,
             fmt::format("{}={} exec {} {} {} \"$@\"\n", variable_of_shell, shell_quoted(remote_shell_text()),
                         shell_quoted(own_path()), agent_word, shell_quoted(job_folder)));
  return "/bin/sh " + script;
}

std::string socket_of(const std::string& job_folder) { return job_folder + "/nodes"; }

std::vector<std::string> variables_of_others() {
  std::vector<std::string> out;
  for (char** each = environ; *each; ++each) {
    const std::string name(*each, std::strcspn(*each, "="));
    if (name.starts_with("PMI") || name.starts_with("SLURM_") || name == variable_of_arguments)
      out.push_back(name);
  }
  return out;
}

std::string name_file(const std::string& job_folder, const std::string& name) {
  return fmt::format("{}/name-{}", job_folder, name);
}

std::vector<std::string> hosts_that_answer(const std::vector<std::string>& hosts,
                                           std::chrono::nanoseconds most) {
  std::deque<Child> asked;
  for (const std::string& host : hosts) {
    std::vector<std::string> words = remote_shell();
    words.insert(words.end(), {host, "true"});
    asked.emplace_back(is_here(host) ? std::vector<std::string>{"true"} : words);
  }
  const auto until = std::chrono::steady_clock::now() + most;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    while (!asked[i].status() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (asked[i].status() == 0) out.push_back(hosts[i]);
  }
  return out;
}

int run_agent(const std::vector<std::string>& words) {
  if (words.size() < 3) return 2;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  std::signal(SIGTERM, [](int) { is_told_to_end = true; });
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const std::string command = within_job(join({words.begin() + 2, words.end()}, " "), words[0]);
  Remote remote(words[1], words[0]);
  if (access(socket_of(words[0]).c_str(), F_OK) != 0) return over_shell(std::move(remote), words[1], command);
  const int socket = connected_to(socket_of(words[0]));
  return socket < 0 ? no_host_status : by_node(socket, std::move(remote), words[1], command);
}

}  // namespace shardwright
