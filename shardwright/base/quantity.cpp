#include "shardwright/base/quantity.h"

#include <fmt/format.h>

#include <cmath>

#include "shardwright/base/text.h"

namespace shardwright {

namespace {
constexpr std::string_view prefixes = "num kMGTP";  // in the middle that of 1
}  // namespace

std::optional<double> to_quantity(std::string_view text, std::string_view unit) {
  std::string_view rest = trim(text);
  if (rest.ends_with(unit)) rest.remove_suffix(unit.size());
  const bool is_binary = rest.ends_with('i');
  if (is_binary) rest.remove_suffix(1);
  const char last = rest.empty() || rest.back() == ' ' ? '\0' : rest.back();
  const std::size_t at = prefixes.find(last == 'K' ? 'k' : last);
  const int thousands = at == prefixes.npos ? 0 : static_cast<int>(at) - 3;
  if (is_binary && thousands <= 0) return std::nullopt;
  if (thousands != 0) rest.remove_suffix(1);
  const auto number = to_number(trim(rest));
  if (!number) return std::nullopt;
  const double scale = std::pow(is_binary ? 1024.0 : 1000.0, std::abs(thousands));
  return thousands < 0 ? *number / scale : *number * scale;  // 5 / 1e6 is 5e-6, 5 * 1e-6 is not
}

std::string quantity_text(double quantity, std::string_view unit) {
  std::string shortest = fmt::format("{}{}", quantity, unit);
  for (int thousands = -3; thousands <= 5; ++thousands) {
    const double scale = std::pow(1000.0, std::abs(thousands));
    const double number = thousands < 0 ? quantity * scale : quantity / scale;
    std::string text = fmt::format(
        "{}{}{}", number, thousands ? prefixes.substr(static_cast<std::size_t>(thousands + 3), 1) : "", unit);
    if (text.size() < shortest.size() && to_quantity(text, unit) == quantity) shortest = std::move(text);
  }
  return shortest;
}

std::optional<std::int64_t> to_bytes(std::string_view text) {
  const double bytes = std::floor(to_quantity(text, "B").value_or(0));
  if (bytes < 1 || bytes >= 9e18) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

std::optional<double> to_share(std::string_view text) {
  std::string_view rest = trim(text);
  const bool is_percent = rest.ends_with('%');
  if (is_percent) rest.remove_suffix(1);
  const auto number = to_number(trim(rest));
  if (!number) return std::nullopt;
  const double share = is_percent ? *number / 100 : *number;
  return share >= 0 && share < 1 ? std::optional(share) : std::nullopt;
}

std::string share_text(double share) {
  const std::string percent = fmt::format("{:.6g}%", share * 100);
  return to_share(percent) == share ? percent : fmt::format("{}", share);
}

std::string bytes_text(std::int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1000000) return fmt::format("{:.1f} KB", b / 1e3);
  if (bytes < 1000000000) return fmt::format("{:.1f} MB", b / 1e6);
  return fmt::format("{:.2f} GB", b / 1e9);
}

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 1e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.4g} s", seconds);
}

}  // namespace shardwright
