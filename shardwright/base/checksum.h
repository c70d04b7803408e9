// Sums that tell damage of what is stored: XXH3, 64 bits (libxxhash). Nothing here resists somebody who forges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardwright {

std::uint64_t checksum(std::span<const std::byte> bytes);
std::uint64_t checksum(std::string_view text);

/// 16 digits, and back; nothing if it is no such text.
std::string checksum_text(std::uint64_t sum);
std::optional<std::uint64_t> parse_checksum(std::string_view text);

}  // namespace shardwright
