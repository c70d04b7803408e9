// Event files are read back by a reader of their own: frames by length, messages field by field.
#include "shardwright/runtime/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T out;
  EXPECT_LE(at + sizeof out, bytes.size());
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t out = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    out |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return out;
  }
}

/// The fields of a message: numbers of varints, and the bytes of all others.
std::multimap<int, std::string> fields_of(std::string_view message) {
  std::multimap<int, std::string> out;
  while (!message.empty()) {
    const std::uint64_t key = varint(message);
    std::size_t size = 0;
    std::string value;
    switch (key & 7) {
      case 0: value = std::to_string(varint(message)); break;
      case 1: size = 8; break;
      case 2: size = varint(message); break;
      case 5: size = 4; break;
      default: ADD_FAILURE() << "wire type " << (key & 7);
    }
    out.emplace(static_cast<int>(key >> 3), (key & 7) == 0 ? value : std::string(message.substr(0, size)));
    message.remove_prefix(size);
  }
  return out;
}

std::vector<std::string> records_of(std::string_view file) {
  const auto unmasked = [](std::uint32_t sum) {
    const std::uint32_t rotated = sum - 0xa282ead8U;
    return (rotated >> 17) | (rotated << 15);
  };
  std::vector<std::string> out;
  while (!file.empty()) {
    const auto length = number_at<std::uint64_t>(file, 0);
    EXPECT_EQ(unmasked(number_at<std::uint32_t>(file, 8)), crc32c(file.substr(0, 8)));
    out.emplace_back(file.substr(12, length));
    EXPECT_EQ(unmasked(number_at<std::uint32_t>(file, 12 + length)), crc32c(out.back()));
    file.remove_prefix(16 + length);
  }
  return out;
}

TEST(EventFile, checksum_is_castagnoli) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);            // of RFC 3720's polynomial, as catalogues have it
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720, B.4
}

TEST(EventFile, is_read_back) {
  const std::string folder = scratch_folder() + "/a/b";
  EventFile file(folder);
  file.write(7, {{"loss", 2.5}, {"eval/loss", -1e10}});
  file.write(1LL << 40, {{"loss", 0.25}});
  EXPECT_EQ(file.path().find(folder + "/events.out.tfevents."), 0U);
  const std::vector<std::string> records = records_of(read_bytes(file.path()));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(fields_of(records[0]).find(3)->second, "brain.Event:2");
  const auto event = fields_of(records[1]);
  EXPECT_GT(number_at<double>(event.find(1)->second, 0), 1.7e9);
  EXPECT_EQ(event.find(2)->second, "7");
  std::map<std::string, float> scalars;
  const auto summary = fields_of(event.find(5)->second);
  for (const auto& [number, value] : summary) {
    const auto scalar = fields_of(value);
    scalars[scalar.find(1)->second] = number_at<float>(scalar.find(2)->second, 0);
  }
  EXPECT_EQ(scalars, (std::map<std::string, float>{{"loss", 2.5F}, {"eval/loss", -1e10F}}));
  EXPECT_EQ(fields_of(records[2]).find(2)->second, "1099511627776");
}

TEST(EventFile, says_where_nothing_can_be_written) {
  write_bytes(scratch_folder() + "/file", "");
  const std::string path = scratch_folder();
  write_bytes(path + "/file", "");
  EXPECT_EQ(error_of([&] { EventFile(path + "/file/x"); }),
            path + "/file/x: cannot be made: Not a directory");
}

}  // namespace
}  // namespace shardwright
