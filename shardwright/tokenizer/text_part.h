// Where in a text something stands.
#pragma once

#include <cstddef>

namespace shardwright {

/// Bytes [begin, end).
struct TextPart {
  std::size_t begin = 0, end = 0;
  bool operator==(const TextPart&) const = default;
};

}  // namespace shardwright
