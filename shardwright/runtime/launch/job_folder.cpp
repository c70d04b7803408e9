#include "shardwright/runtime/launch/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
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
  remove_left_behind(base_folder(), prefix, lock_name, shared_memory_of);
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  path_ = fmt::format("{}/{}{}-{:x}", base_folder(), prefix, getpid(), now);
  shared_memory_ = shared_memory_of(path_);
  make(path_);
  lock_ = locked_file(fmt::format("{}/{}", path_, lock_name), O_CREAT);
  make(shared_memory_);
  sweeper_.emplace(std::vector{path_, shared_memory_});
}

JobFolder::~JobFolder() {
  remove(shared_memory_);
  remove(path_);
  if (lock_ >= 0) ::close(lock_);
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
