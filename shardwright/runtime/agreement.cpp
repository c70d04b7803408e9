#include "shardwright/runtime/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardwright {
namespace {

const Agreement* find(std::span<const Agreement> agreements, const std::string& name) {
  const auto it = std::ranges::find(agreements, name, &Agreement::name);
  return it == agreements.end() ? nullptr : &*it;
}

/// The first of several in which two texts differ.
std::optional<std::pair<std::string_view, std::string_view>> different_lines(std::string_view a,
                                                                             std::string_view b) {
  if (a.find('\n') == std::string_view::npos) return std::nullopt;
  const auto next = [](std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    return line;
  };
  for (;;)
    if (const std::pair lines{next(a), next(b)}; lines.first != lines.second || (a.empty() && b.empty()))
      return lines;
}

}  // namespace

std::optional<std::string> difference(std::span<const Agreement> rank_0, int rank,
                                      std::span<const Agreement> own) {
  for (const Agreement& a : own)
    if (!find(rank_0, a.name)) return fmt::format("rank {} was told {}, rank 0 no {}", rank, a.told, a.name);
  for (const Agreement& a : rank_0)
    if (!find(own, a.name)) return fmt::format("rank {} was told no {}, rank 0 {}", rank, a.name, a.told);
  for (const Agreement& a : rank_0) {
    const Agreement& b = *find(own, a.name);
    if (a.text == b.text) continue;
    if (const auto lines = different_lines(a.text, b.text))
      return fmt::format("rank {} has another {} than rank 0: `{}`, there `{}`", rank, a.name, lines->second,
                         lines->first);
    if (a.told != b.told) return fmt::format("rank {} was told {}, rank 0 {}", rank, b.told, a.told);
    return fmt::format("rank {} has another {} than rank 0, though both were told {}", rank, a.name, a.told);
  }
  return std::nullopt;
}

// Behind each field a zero, which no word of a command line can hold.
std::string packed(std::span<const Agreement> agreements) {
  std::string out;
  for (const Agreement& a : agreements)
    for (const std::string* field : {&a.name, &a.text, &a.told}) (out += *field) += '\0';
  return out;
}

std::vector<Agreement> unpacked(std::string_view text) {
  const auto next = [&] {
    const std::size_t end = text.find('\0');
    std::string field(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), field.size() + 1));
    return field;
  };
  std::vector<Agreement> out;
  while (!text.empty()) {
    Agreement& a = out.emplace_back();
    for (std::string* field : {&a.name, &a.text, &a.told}) *field = next();
  }
  return out;
}

}  // namespace shardwright
