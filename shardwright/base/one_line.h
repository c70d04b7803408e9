// Messages as one line.
#pragma once

#include <algorithm>
#include <string>

namespace shardwright {

/// What a file holds stands in messages, however long it is and whatever its characters.
inline std::string one_line(std::string text) {
  constexpr std::size_t longest = 2000;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; },
      ' ');
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

}  // namespace shardwright
