// Numbers with prefixes and units, as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardwright {

/// `5us` in s, `2039 GB/s` in B/s, `60GB` or `1.5GiB` in B: a number, a prefix (n, u, m, k or K, M, G, T, P are powers of
/// 1000; Ki, Mi, Gi, Ti, Pi of 1024) and `unit`, of which prefix and unit may be left out. May be infinite.
std::optional<double> to_quantity(std::string_view text, std::string_view unit);
/// The shortest text that is read back as this number: `2039GB/s`.
std::string quantity_text(double quantity, std::string_view unit);
/// `60GB`, `512MiB`, `4096`: whole bytes from 1 on.
std::optional<std::int64_t> to_bytes(std::string_view text);
/// `6%`, `0.06`: from 0 on, below 1.
std::optional<double> to_share(std::string_view text);
constexpr std::string_view what_shares_are = "should be a share from 0% to below 100%, such as 6%";
/// The shortest text that is read back as this share: `6%`.
std::string share_text(double share);
/// `12.3 KB`
std::string bytes_text(std::int64_t bytes);
/// `12.3 ms`
std::string seconds_text(double seconds);

}  // namespace shardwright
