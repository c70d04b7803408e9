#include "shardwright/runtime/launch/rank_logs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "shardwright/base/file.h"
#include "shardwright/base/index.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

/// Of one start; whatever else lies there stays.
void remove_logs(const fs::path& folder) {
  std::error_code failure;
  for (const auto& rank : fs::directory_iterator(folder, failure)) {
    if (!rank.path().filename().string().starts_with("rank.")) continue;
    for (const char* stream : {"stdout", "stderr"}) fs::remove(rank.path() / stream, failure);
    fs::remove(rank.path(), failure);  // if it is empty
  }
  fs::remove(folder, failure);
}

void make_room(const fs::path& folder, int restart) {
  std::error_code failure;
  if (restart > 0) return fs::rename(folder / "1", folder / fmt::format("1.lost-{}", restart), failure);
  std::vector<fs::path> earlier;
  for (const auto& entry : fs::directory_iterator(folder, failure))
    if (const std::string name = entry.path().filename().string(); name == "1" || name.starts_with("1.lost-"))
      earlier.push_back(entry.path());
  for (const fs::path& each : earlier) remove_logs(each);
}

}  // namespace

RankLogs::RankLogs(const std::string& folder, int ranks, int restart) {
  make_room(folder, restart);
  for (int rank = 0; rank < ranks; ++rank) {
    const fs::path own = fs::path(folder) / "1" / fmt::format("rank.{}", rank);
    std::error_code failure;
    fs::create_directories(own, failure);
    if (failure) throw io_error("{}: cannot be made: {}", own.string(), failure.message());
    for (const char* stream : {"stdout", "stderr"}) {
      const std::string path = (own / stream).string();
      const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
      if (file < 0) throw unwritable(path, errno);
      files_.push_back({path, file});
    }
  }
}

RankLogs::~RankLogs() {
  for (const File& file : files_) ::close(file.descriptor);
}

void RankLogs::add(int rank, Stream stream, std::string_view text) {
  const std::size_t place = at(rank) * 2 + (stream == Stream::errors ? 1 : 0);
  if (place >= files_.size()) return;
  const File& file = files_[place];
  while (!text.empty()) {
    const ssize_t n = ::write(file.descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw unwritable(file.path, errno);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace shardwright
