#include "shardwright/base/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>

namespace shardwright {

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::uint64_t checksum(std::string_view text) { return checksum(std::as_bytes(std::span(text))); }

std::string checksum_text(std::uint64_t sum) { return fmt::format("{:016x}", sum); }

std::optional<std::uint64_t> parse_checksum(std::string_view text) {
  std::uint64_t sum = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return checksum_text(sum) == text ? std::optional(sum) : std::nullopt;
}

}  // namespace shardwright
