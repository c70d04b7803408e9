#include "shardwright/runtime/launch/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "shardwright-job-", lock_name = ".launcher";

std::string base_folder() {
  const char* set = std::getenv("TMPDIR");
  // mpirun would read a blank as the end of a word.
  return set && *set == '/' && !std::strpbrk(set, " \t\"'") ? set : "/tmp";
}

/// Open MPI's own place for shared memory, where there is one.
std::string memory_base() { return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : base_folder(); }

void remove(const std::string& folder) noexcept {
  std::error_code failure;  // what cannot be removed now, the next launch removes
  fs::remove_all(folder, failure);
}

/// Holds as long as the descriptor is open; -1: somebody else has it, or there is no such file.
int locked(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return -1;
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  ::close(file);
  return -1;
}

/// Those of this user whose launcher is gone.
void remove_left_behind() {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(base_folder(), failure)) {
    const std::string path = entry.path().string();
    struct stat state {};
    if (!entry.path().filename().string().starts_with(prefix) || lstat(path.c_str(), &state) != 0 ||
        state.st_uid != geteuid() || !S_ISDIR(state.st_mode))
      continue;
    const int lock = locked(fmt::format("{}/{}", path, lock_name), 0);
    if (lock < 0) continue;  // it lives, or is another host's
    remove(shared_memory_of(path));
    remove(path);
    ::close(lock);
  }
}

void make(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0)
    throw io_error("{}: cannot be made: {}", folder, std::strerror(errno));
}

}  // namespace

std::string shared_memory_of(const std::string& job_folder) {
  return fmt::format("{}/{}", memory_base() == "/dev/shm" ? "/dev/shm" : job_folder,
                     memory_base() == "/dev/shm" ? fs::path(job_folder).filename().string() : "memory");
}

JobFolder::JobFolder() {
  remove_left_behind();
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  path_ = fmt::format("{}/{}{}-{:x}", base_folder(), prefix, getpid(), now);
  shared_memory_ = shared_memory_of(path_);
  make(path_);
  lock_ = locked(fmt::format("{}/{}", path_, lock_name), O_CREAT);
  make(shared_memory_);
  start_sweeper();
}

/// What is killed can do nothing itself; and mpirun, which ends then, takes a moment.
void JobFolder::start_sweeper() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;  // then the next launch does it
  const pid_t between = fork();
  if (between == 0) {
    if (fork() != 0) _exit(0);  // so that it is nobody's child, whom somebody might wait for
    setsid();                   // and nobody ends it together with this one
    dup2(ends[0], STDIN_FILENO);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(open("/dev/null", O_WRONLY), stream);
    execl("/bin/sh", "sh", "-c",
          "read -r end && exit; for _ in 1 2 3; do sleep 2; rm -rf \"$1\" \"$2\"; done", "sweep",
          path_.c_str(), shared_memory_.c_str(), nullptr);
    _exit(0);
  }
  listens_ = ends[0];
  alive_ = ends[1];
  if (between > 0) waitpid(between, nullptr, 0);
}

JobFolder::~JobFolder() {
  remove(shared_memory_);
  remove(path_);
  if (lock_ >= 0) ::close(lock_);
  if (alive_ < 0) return;
  [[maybe_unused]] const ssize_t may_fail = ::write(alive_, "done\n", 5);
  ::close(alive_);
  ::close(listens_);
}

std::string within_job(const std::string& command, const std::string& job_folder) {
  const std::string sessions = shell_quoted(job_folder), memory = shell_quoted(shared_memory_of(job_folder));
  // The host may share these folders with others, so only what bears its name goes.
  const std::string script = fmt::format(
      "mkdir -p -m 700 {0} {1}; trap : HUP INT TERM; {2}; s=$?; h=$(uname -n); "
      "rm -rf {0}/ompi.\"$h\".* {1}/vader_segment.\"$h\".*; rmdir {1} {0} 2>/dev/null; exit $s",
      sessions, memory, command);
  return "exec /bin/sh -c " + shell_quoted(script);
}

}  // namespace shardwright
