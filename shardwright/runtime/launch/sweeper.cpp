#include "shardwright/runtime/launch/sweeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

namespace shardwright {

/// mpirun, which ends with its launcher, takes a moment.
Sweeper::Sweeper(const std::vector<std::string>& folders) {
  std::vector<std::string> words{
      "sh", "-c", "read -r end && exit; for _ in 1 2 3; do sleep 2; rm -rf \"$@\"; done", "sweep"};
  words.insert(words.end(), folders.begin(), folders.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;  // then the next launch does it
  const pid_t between = fork();
  if (between == 0) {
    if (fork() != 0) _exit(0);  // so that it is nobody's child, whom somebody might wait for
    setsid();                   // and nobody ends it together with this one
    dup2(ends[0], STDIN_FILENO);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(open("/dev/null", O_WRONLY), stream);
    execv("/bin/sh", pointers.data());
    _exit(0);
  }
  listens_ = ends[0];
  alive_ = ends[1];
  if (between > 0) waitpid(between, nullptr, 0);
}

Sweeper::~Sweeper() {
  if (alive_ < 0) return;
  [[maybe_unused]] const ssize_t may_fail = ::write(alive_, "done\n", 5);
  ::close(alive_);
  ::close(listens_);
}

int locked_file(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return -1;
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  ::close(file);
  return -1;
}

void remove_left_behind(const std::string& base, std::string_view prefix, std::string_view lock_name,
                        std::string (*also)(const std::string& folder)) {
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(base, failure)) {
    const std::string path = entry.path().string();
    struct stat state {};
    if (!entry.path().filename().string().starts_with(prefix) || lstat(path.c_str(), &state) != 0 ||
        state.st_uid != geteuid() || !S_ISDIR(state.st_mode))
      continue;
    const int lock = locked_file(fmt::format("{}/{}", path, lock_name), 0);
    if (lock < 0) continue;  // it lives, or is another host's
    if (also) std::filesystem::remove_all(also(path), failure);
    std::filesystem::remove_all(path, failure);
    ::close(lock);
  }
}

}  // namespace shardwright
