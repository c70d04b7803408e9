#include "shardwright/frontend/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The numbers in `name`, from left to right.
std::vector<std::int64_t> numbers_in(const std::string& name) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!is_digit(name[i])) continue;
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    out.push_back(to_integer(std::string_view(name).substr(i, end - i)).value_or(0));
    i = end;
  }
  return out;
}

/// `0-3`, `0-3,7`; of very many the first and the last: `0,3,6,9,12,15,18,...,2997`.
std::string ranges_text(std::vector<std::int64_t> numbers) {
  std::ranges::sort(numbers);
  constexpr std::size_t most = 16, shown = 7;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out.push_back(fmt::format("{}", numbers[i]));
    if (last > i) out.back() += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  if (out.size() > most) {
    out[shown] = "...";
    out.erase(out.begin() + shown + 1, out.end() - 1);
  }
  return join(out, ",");
}

/// Names of one pattern: what stands at each number's place, and which names those are.
struct Family {
  std::vector<std::vector<std::int64_t>> places;
  std::vector<std::size_t> members;
};

/// Families that differ at `place` only become one.
std::vector<Family> joined_at(std::size_t place, const std::vector<Family>& families) {
  std::vector<Family> out;
  for (const Family& f : families) {
    const auto same = std::ranges::find_if(out, [&](const Family& other) {
      for (std::size_t p = 0; p < f.places.size(); ++p)
        if (p != place && other.places[p] != f.places[p]) return false;
      return true;
    });
    if (same == out.end()) {
      out.push_back(f);
      continue;
    }
    auto& numbers = same->places[place];
    numbers.insert(numbers.end(), f.places[place].begin(), f.places[place].end());
    same->members.insert(same->members.end(), f.members.begin(), f.members.end());
  }
  return out;
}

std::string name_of(const std::string& pattern, const Family& family) {
  std::string out;
  std::size_t place = 0;
  for (char c : pattern)
    if (c == '#')
      out += ranges_text(family.places[place++]);
    else
      out += c;
  return out;
}

std::vector<std::size_t> widths_of(const Rows& rows) {
  std::vector<std::size_t> out(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) out[c] = std::max(out[c], row[c].size());
  return out;
}

}  // namespace

std::size_t width_of(const Rows& rows) {
  std::size_t out = 0;
  for (std::size_t width : widths_of(rows)) out += 2 + width;
  return out;
}

std::string aligned(const Rows& rows, const NumberColumns& numbers) {
  const std::vector<std::size_t> width = widths_of(rows);
  std::string out;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const bool is_number = c >= numbers.begin && c < numbers.end;
      line += is_number            ? fmt::format(" {:>{}} ", row[c], width[c])
              : c + 1 < row.size() ? fmt::format(" {:{}} ", row[c], width[c])
                                   : " " + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string integers_text(const std::vector<std::vector<std::int64_t>>& parts) {
  std::string out;
  for (std::size_t i = 0; i < parts.size();) {
    std::size_t end = i;
    while (end < parts.size() && parts[end] == parts[i]) ++end;
    out += fmt::format("{}({}{}){}", i > 0 ? "," : "", fmt::join(parts[i], ","),
                       parts[i].size() == 1 ? "," : "", end - i > 1 ? fmt::format(" x{}", end - i) : "");
    i = end;
  }
  return "(" + out + (parts.size() == 1 ? ",)" : ")");
}

std::string without_numbers(const std::string& name) {
  std::string out;
  for (char c : name)
    if (!is_digit(c))
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  return out;
}

std::vector<FoldedName> folded(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<Family>> patterns;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Family f{.places = {}, .members = {i}};
    for (std::int64_t n : numbers_in(names[i])) f.places.push_back({n});
    patterns[without_numbers(names[i])].push_back(std::move(f));
  }
  std::vector<FoldedName> out;
  for (auto& [pattern, families] : patterns) {
    const std::size_t places = families.front().places.size();
    for (std::size_t p = places; p > 0; --p) families = joined_at(p - 1, families);
    for (Family& f : families) {
      std::ranges::sort(f.members);
      out.push_back({name_of(pattern, f), f.members});
    }
  }
  std::ranges::sort(out, {}, [](const FoldedName& f) { return f.members.front(); });
  return out;
}

}  // namespace shardwright
