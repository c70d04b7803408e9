// A file of which pieces are read, by any thread: only what is asked for is in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace shardwright {

class OpenFile {
 public:
  /// Throws: Error of kind io if it is no regular file that may be read.
  explicit OpenFile(std::string path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }
  /// Throws: Error if the file ends before.
  void read(std::int64_t from, std::span<std::byte> to) const;

 private:
  std::string path_;
  std::int64_t bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace shardwright
