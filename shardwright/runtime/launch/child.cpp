#include "shardwright/runtime/launch/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

/// Runs in the child; does not return.
[[noreturn]] void become(std::vector<std::string> words, const std::vector<std::string>& without, int input,
                         int output, int errors) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  if (input < 0) input = open("/dev/null", O_RDONLY);
  dup2(input, STDIN_FILENO);  // it would read what a calling script reads from
  for (const std::string& name : without) unsetenv(name.c_str());
  std::vector<char*> pointers;
  for (std::string& w : words) pointers.push_back(w.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  _exit(not_found_status);
}

}  // namespace

bool can_be_started(const std::string& program) {
  const auto is_there = [](const std::filesystem::path& path) {
    std::error_code failure;
    return std::filesystem::is_regular_file(path, failure) && access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != program.npos) return is_there(program);
  const char* folders = std::getenv("PATH");
  return std::ranges::any_of(split(folders ? folders : "/usr/bin:/bin", ':'), [&](std::string_view folder) {
    return is_there(std::filesystem::path(folder) / program);
  });
}

Child::Child(const std::vector<std::string>& words, const std::vector<std::string>& without, Reads reads) {
  std::array<int, 2> input{-1, -1}, output{}, errors{};
  const bool is_told = reads == Reads::what_is_told;
  // A socket: to write to one that nobody reads is no signal.
  if ((is_told && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input.data()) != 0) ||
      pipe2(output.data(), O_CLOEXEC) != 0 || pipe2(errors.data(), O_CLOEXEC) != 0)
    throw io_error("{}: there is no pipe for its messages", words.front());
  std::signal(SIGCHLD, SIG_DFL);  // where a parent had it ignored, how a child ended is lost
  id_ = fork();
  if (id_ < 0) throw io_error("{}: no process can be started", words.front());
  if (id_ == 0) become(words, without, input[0], output[1], errors[1]);
  setpgid(id_, id_);  // whoever comes first: a signal to the group finds it
  if (is_told) {
    ::close(input[0]);
    input_ = input[1];
  }
  ::close(output[1]);
  ::close(errors[1]);
  output_ = output[0];
  errors_ = errors[0];
}

Child::~Child() {
  if (!status()) {
    signal_all(SIGKILL);
    wait();
  }
  for (const int pipe : {input_, output_, errors_})
    if (pipe >= 0) ::close(pipe);
}

std::string Child::read(int& pipe) {
  std::array<char, 1 << 14> buffer{};
  for (;;) {
    const ssize_t n = ::read(pipe, buffer.data(), buffer.size());
    if (n > 0) return {buffer.data(), static_cast<std::size_t>(n)};
    if (n < 0 && errno == EINTR) continue;
    ::close(pipe);
    pipe = -1;
    return "";
  }
}

void Child::tell(std::string_view text) const {
  if (input_ < 0) return;
  [[maybe_unused]] const ssize_t may_fail =
      ::send(input_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Child::end_input() {
  if (input_ >= 0) ::close(input_);
  input_ = -1;
}

void Child::signal(int number) const {
  if (!status_) kill(id_, number);
}

void Child::signal_all(int number) const { kill(-id_, number); }

void Child::take(int state) {
  ended_by_ = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  status_ = ended_by_ > 0 ? 128 + ended_by_ : WEXITSTATUS(state);
}

std::optional<int> Child::status() {
  int state = 0;
  if (!status_ && waitpid(id_, &state, WNOHANG) == id_) take(state);
  return status_;
}

int Child::wait() {
  int state = 0;
  while (!status_) {
    const pid_t ended = waitpid(id_, &state, 0);
    require(ended == id_ || errno == EINTR, "process {} cannot be waited for", id_);
    if (ended == id_) take(state);
  }
  return *status_;
}

}  // namespace shardwright
