#include "shardwright/runtime/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/host_name.h"

namespace shardwright {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class T>
std::string raw(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);  // little-endian, as the format and all our hosts are
  return out;
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string field(int number, Wire wire, std::string_view content) {
  std::string out = varint(static_cast<std::uint64_t>(number << 3 | static_cast<int>(wire)));
  if (wire == Wire::bytes) out += varint(content.size());
  return out.append(content);
}

/// Checksums of what contains checksums would be weak: this one is stored rotated.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> out{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      out[i] = i;
      for (int bit = 0; bit < 8; ++bit) out[i] = (out[i] >> 1) ^ ((out[i] & 1) ? 0x82f63b78U : 0);
    }
    return out;
  }();
  std::uint32_t crc = ~0U;
  for (char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

EventFile::EventFile(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw io_error("{}: cannot be made: {}", folder, failure.message());
  path_ = fmt::format("{}/events.out.tfevents.{}.{}.{}", folder, static_cast<std::int64_t>(now()),
                      host_name(), ::getpid());
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw unwritable(path_, errno);
  write_record(field(1, Wire::fixed64, raw(now())) + field(3, Wire::bytes, "brain.Event:2"));
}
EventFile::~EventFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}
EventFile::EventFile(EventFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

void EventFile::write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars)
    summary += field(1, Wire::bytes,
                     field(1, Wire::bytes, tag) + field(2, Wire::fixed32, raw(static_cast<float>(value))));
  write_record(field(1, Wire::fixed64, raw(now())) +
               field(2, Wire::varint, varint(static_cast<std::uint64_t>(step))) +
               field(5, Wire::bytes, summary));
}

/// In one call, so that a reader never sees half a record, and of a run that is killed all but the last are whole.
void EventFile::write_record(std::string_view message) {
  const std::string length = raw(static_cast<std::uint64_t>(message.size()));
  std::string record = length + raw(masked(crc32c(length)));
  record.append(message).append(raw(masked(crc32c(message))));
  for (std::string_view left = record; !left.empty();) {
    const ssize_t n = ::write(descriptor_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw unwritable(path_, errno);
    left.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace shardwright
