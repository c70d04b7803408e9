// How many drawn cases a test takes, and which.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace shardwright::testing {

/// `all`, or a fifth of them with SHARDWRIGHT_FEW_DRAWS: under a sanitizer each takes ten times as long.
inline unsigned draws(unsigned all) {
  return std::getenv("SHARDWRIGHT_FEW_DRAWS") ? std::max(1u, all / 5) : all;
}

/// What is added to the seeds of random tests: SHARDWRIGHT_SEED, which scripts/test.sh --full takes from the clock, or 0.
inline std::uint64_t further_seeds() {
  const char* said = std::getenv("SHARDWRIGHT_SEED");
  return said ? std::strtoull(said, nullptr, 10) : 0;
}

}  // namespace shardwright::testing
