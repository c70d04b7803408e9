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

}  // namespace shardwright
