// TensorBoard's event files, written by hand: records of a length, its masked CRC-32C, a protobuf message and its masked
// CRC-32C. The messages are `Event` and `Summary` of TensorFlow's event.proto, of which these fields are used:
//
//   Event    wall_time = 1 (double), step = 2 (int64), file_version = 3 (string), summary = 5 (Summary)
//   Summary  value = 1 (repeated: tag = 1 (string), simple_value = 2 (float))
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwright {

class EventFile {
 public:
  /// A new file in `folder`, which is made, `events.out.tfevents.SECONDS.HOST.PROCESS`. Throws: Error of kind io.
  explicit EventFile(const std::string& folder);
  ~EventFile();
  EventFile(EventFile&& other) noexcept;
  EventFile& operator=(EventFile&&) = delete;

  const std::string& path() const { return path_; }
  /// Numbers of a step, by tag, in one event; readers see them at once. Throws: Error of kind io.
  void write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  void write_record(std::string_view message);

  std::string path_;
  int descriptor_ = -1;
};

/// The checksum of records: CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace shardwright
