// What options are called where somebody has to be told of them: flags on a command line, keywords in code.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace shardwright {

/// By which door options came.
enum class Door { code, command };

/// `--save-every` of a command; in code `save_every`.
inline std::string called(Door door, std::string_view flag) {
  if (door == Door::command) return std::string(flag);
  std::string out(flag.substr(std::min<std::size_t>(2, flag.size())));
  std::ranges::replace(out, '-', '_');
  return out;
}

}  // namespace shardwright
