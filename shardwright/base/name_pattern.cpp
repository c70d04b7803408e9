#include "shardwright/base/name_pattern.h"

namespace shardwright {

bool is_pattern(std::string_view name) { return name.find('*') != name.npos; }

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t end = star; end <= name.size(); ++end) {
    if (matches(rest, name.substr(end))) return true;
    if (end < name.size() && name[end] == '.') return false;
  }
  return false;
}

std::vector<std::string> names_of_range(std::string_view name) {
  constexpr std::size_t most_digits = 5;
  constexpr int most_names = 65536;
  const std::size_t begin = name.rfind('.') + 1, dash = name.find('-', begin);
  const auto number_of = [](std::string_view digits) {
    int out = digits.empty() || digits.size() > most_digits ? -1 : 0;
    for (char c : digits) out = out < 0 || c < '0' || c > '9' ? -1 : 10 * out + (c - '0');
    return out;
  };
  const int first = dash == name.npos ? -1 : number_of(name.substr(begin, dash - begin)),
            last = dash == name.npos ? -1 : number_of(name.substr(dash + 1));
  std::vector<std::string> out;
  for (int i = first; first >= 0 && i <= last && i - first < most_names; ++i)
    out.push_back(std::string(name.substr(0, begin)) + std::to_string(i));
  return out.empty() ? std::vector{std::string(name)} : out;
}

}  // namespace shardwright
