// Files of a folder that is memory: what stands there outlives the process that has written it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardwright {

/// A file as memory of this process, written by whoever writes there.
class MemoryFile {
 public:
  /// A new one, with all its memory taken. Throws: Error of kind io if there is not as much.
  MemoryFile(const std::string& path, std::size_t bytes);
  /// One that is there. Throws: Error of kind io.
  explicit MemoryFile(const std::string& path);
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// Checksums of its blocks, as a manifest has them.
std::vector<std::uint64_t> sums_of(std::span<const std::byte> bytes, std::int64_t block_bytes);

/// Of the file system that `folder` is on.
std::int64_t free_bytes_at(const std::string& folder);

}  // namespace shardwright
