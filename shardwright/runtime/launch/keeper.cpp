#include "shardwright/runtime/launch/keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/host_name.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/launch/wire.h"

namespace shardwright {
namespace {

constexpr std::string_view memory_folder = "/dev/shm", keeper_prefix = "shardwright-keeper-",
                           keeper_lock = ".keeper";

std::atomic<bool> keeper_is_told_to_end{false};

}  // namespace

std::string new_keeper_name() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}{}-{:x}", keeper_prefix, getpid(), now);
}

std::string keeper_folder(const std::string& name) {
  std::string host = host_name();
  std::ranges::replace(host, '/', '-');
  return fmt::format("{}/{}-{}", memory_folder, name, host);
}

KeptFolder::KeptFolder(const std::string& name) : name_(name), path_(keeper_folder(name)) {
  remove_left_behind(std::string(memory_folder), keeper_prefix, keeper_lock);
  const bool is_made = mkdir(path_.c_str(), 0700) == 0;
  if (!is_made && errno != EEXIST)
    throw io_error("{}: cannot be made: {}; copies of the state are kept in memory there", path_,
                   std::strerror(errno));
  lock_ = locked_file(fmt::format("{}/{}", path_, keeper_lock), O_CREAT);
  if (lock_ >= 0) sweeper_.emplace(std::vector{path_});
}

KeptFolder::~KeptFolder() {
  if (lock_ < 0) return;
  std::error_code failure;
  std::filesystem::remove_all(path_, failure);
  ::close(lock_);
}

int run_keeper(const std::vector<std::string>& words) {
  const auto patience = words.size() == 2 ? to_number(words[1]) : std::nullopt;
  if (!patience) return 2;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  std::signal(SIGTERM, [](int) { keeper_is_told_to_end = true; });
  for (const int ignored : {SIGINT, SIGHUP, SIGPIPE}) std::signal(ignored, SIG_IGN);
  try {
    const KeptFolder folder(words[0]);
    const auto say = [](std::string_view text) {
      return ::write(STDOUT_FILENO, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    };
    if (!say(keeper_is_there)) return 0;
    auto heard = std::chrono::steady_clock::now();
    while (!keeper_is_told_to_end) {
      pollfd launcher{STDIN_FILENO, POLLIN, 0};
      std::array<char, 256> signs{};
      if (poll(&launcher, 1, static_cast<int>(sign_pause.count())) > 0) {
        if (::read(STDIN_FILENO, signs.data(), signs.size()) <= 0) return 0;  // it is gone
        heard = std::chrono::steady_clock::now();
      }
      const std::chrono::duration<double> silence = std::chrono::steady_clock::now() - heard;
      if (silence.count() > *patience || !say(".")) return 0;
    }
  } catch (const Error& e) {
    fmt::print(stderr, "shardwright: {}\n", e.what());
    return 2;
  }
  return 0;
}

}  // namespace shardwright
