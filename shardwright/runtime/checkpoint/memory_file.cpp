#include "shardwright/runtime/checkpoint/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "shardwright/base/checksum.h"
#include "shardwright/base/file.h"
#include "shardwright/base/index.h"

namespace shardwright {
namespace {

/// Closes `file`.
std::span<std::byte> mapped(const std::string& path, int file, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int code = errno;
  ::close(file);
  if (memory == MAP_FAILED) throw unwritable(path, code);
  return {static_cast<std::byte*>(memory), bytes};
}

}  // namespace

// Memory that is not taken now would end the process with a signal when it is written to.
MemoryFile::MemoryFile(const std::string& path, std::size_t bytes) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw unwritable(path, errno);
  if (const int code = posix_fallocate(file, 0, static_cast<off_t>(bytes)); code != 0) {
    ::close(file);
    ::unlink(path.c_str());
    throw unwritable(path, code);
  }
  bytes_ = mapped(path, file, bytes);
}

MemoryFile::MemoryFile(const std::string& path) {
  const std::int64_t bytes = readable_bytes(path);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) throw unreadable(path, errno);
  bytes_ = mapped(path, file, at(bytes));
}

MemoryFile::~MemoryFile() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

std::vector<std::uint64_t> sums_of(std::span<const std::byte> bytes, std::int64_t block_bytes) {
  std::vector<std::uint64_t> out;
  for (std::size_t begin = 0; begin < bytes.size(); begin += at(block_bytes))
    out.push_back(checksum(bytes.subspan(begin, std::min(at(block_bytes), bytes.size() - begin))));
  return out;
}

std::int64_t free_bytes_at(const std::string& folder) {
  struct statvfs state {};
  if (statvfs(folder.c_str(), &state) != 0) return 0;
  return static_cast<std::int64_t>(state.f_bavail) * static_cast<std::int64_t>(state.f_frsize);
}

}  // namespace shardwright
