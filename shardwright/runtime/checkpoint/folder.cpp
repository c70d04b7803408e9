#include "shardwright/runtime/checkpoint/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/checkpoint/manifest.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-", unfinished_prefix = ".unfinished-";

/// `step-00000012`: 12.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  const auto step = to_integer(std::string_view(name).substr(step_prefix.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> out;
  std::error_code failure;
  fs::directory_iterator entries(folder, failure);
  if (failure) throw io_error("{}: cannot be read: {}", folder, failure.message());
  for (const auto& entry : entries) out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

void sync_folder(const std::string& folder) {
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) throw unwritable(folder, errno);
  const bool is_synced = ::fsync(opened) == 0 || errno == EINVAL || errno == ENOTSUP;
  const int code = errno;
  ::close(opened);
  if (!is_synced) throw unwritable(folder, code);
}

/// First renamed, so that nothing half removed is taken for a checkpoint.
void remove_folder(const std::string& folder, const std::string& path) {
  const std::string old =
      fmt::format("{}/{}old-{}", folder, unfinished_prefix, fs::path(path).filename().string());
  std::error_code failure;
  fs::remove_all(old, failure);
  fs::rename(path, old, failure);
  if (!failure) fs::remove_all(old, failure);
  if (failure) throw io_error("{}: cannot be removed: {}", path, failure.message());
}

std::string target_of(const std::string& folder, std::string_view link) {
  std::error_code failure;
  return fs::read_symlink(fmt::format("{}/{}", folder, link), failure).filename().string();
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw io_error("{}: cannot be made: {}", folder, failure.message());
  const std::string path = folder + "/.lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw unwritable(path, errno);
  constexpr int tries = 30;
  for (int i = 0; i < tries; ++i) {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
      return;  // some file systems have no locks
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ::close(descriptor_);
  throw io_error("{}: another run saves there; give another folder, or wait for it", folder);
}
FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}
FolderLock::FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

bool is_checkpoint(const std::string& folder) {
  std::error_code failure;
  return fs::exists(fmt::format("{}/{}", folder, manifest_file), failure);
}

std::vector<Checkpoint> checkpoints_in(const std::string& folder) {
  std::vector<Checkpoint> out;
  for (const fs::path& path : entries_of(folder))
    if (const auto step = step_of(path.filename().string())) out.push_back({path.string(), *step});
  std::ranges::sort(out, {}, [](const Checkpoint& c) { return -c.step; });
  return out;
}

void set_aside_later(const std::string& folder, std::int64_t step) {
  for (const Checkpoint& c : checkpoints_in(folder)) {
    if (c.step <= step) continue;
    const std::string name = fmt::format("{}/damaged-{}", folder, fs::path(c.folder).filename().string());
    std::error_code failure;
    fs::remove_all(name, failure);
    fs::rename(c.folder, name, failure);
    if (failure) throw io_error("{}: cannot be renamed: {}", c.folder, failure.message());
  }
}

std::string unfinished_folder(const std::string& folder, std::int64_t step) {
  return fmt::format("{}/{}{:08}", folder, unfinished_prefix, step);
}
std::string finished_folder(const std::string& folder, std::int64_t step) {
  return fmt::format("{}/{}{:08}", folder, step_prefix, step);
}

void start_unfinished(const std::string& folder, std::int64_t step) {
  std::error_code failure;
  for (const fs::path& path : entries_of(folder))
    if (path.filename().string().starts_with(unfinished_prefix)) fs::remove_all(path, failure);
  const std::string made = unfinished_folder(folder, step);
  fs::create_directory(made, failure);
  if (failure) throw io_error("{}: cannot be made: {}", made, failure.message());
}

void finish(const std::string& folder, std::int64_t step) {
  const std::string from = unfinished_folder(folder, step), to = finished_folder(folder, step);
  sync_folder(from);
  std::error_code failure;
  if (fs::exists(to, failure)) remove_folder(folder, to);
  fs::rename(from, to, failure);
  if (failure) throw io_error("{}: cannot be renamed to {}: {}", from, to, failure.message());
  sync_folder(folder);
  link_to(folder, std::string(latest_link), step);
}

void remove_unfinished(const std::string& folder, std::int64_t step) noexcept {
  std::error_code failure;
  fs::remove_all(unfinished_folder(folder, step), failure);
}

void link_to(const std::string& folder, const std::string& name, std::int64_t step) {
  const std::string made = fmt::format("{}/{}{}", folder, unfinished_prefix, name);
  const std::string link = fmt::format("{}/{}", folder, name);
  std::error_code failure;
  fs::remove(made, failure);
  fs::create_symlink(fs::path(finished_folder(folder, step)).filename(), made, failure);
  if (!failure) fs::rename(made, link, failure);
  if (failure) throw io_error("{}: cannot be written: {}", link, failure.message());
  sync_folder(folder);
}

void remove_older(const std::string& folder, std::int64_t keep) {
  const std::string kept = target_of(folder, best_link);
  std::int64_t seen = 0;
  for (const Checkpoint& c : checkpoints_in(folder))
    if (seen++ >= keep && fs::path(c.folder).filename() != kept) remove_folder(folder, c.folder);
}

}  // namespace shardwright
