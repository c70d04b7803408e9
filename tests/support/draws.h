// How many drawn cases a test takes.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace shardwright::testing {

/// `all`, or a fifth of them with SHARDWRIGHT_FEW_DRAWS: under a sanitizer each takes ten times as long.
inline unsigned draws(unsigned all) {
  return std::getenv("SHARDWRIGHT_FEW_DRAWS") ? std::max(1u, all / 5) : all;
}

}  // namespace shardwright::testing
