#include "shardwright/base/unknown.h"

#include <algorithm>
#include <cctype>

#include "shardwright/base/text.h"

namespace shardwright {

Error unknown(std::string_view kind, std::string_view name, std::span<const std::string> known) {
  return error("{} '{}' does not exist{}; there are {}", kind, name, near_names(name, known),
               join(known, ", "));
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return out;
}

}  // namespace shardwright
