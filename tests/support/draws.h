// How many drawn cases a test takes, which, and what of a table is asked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace shardwright::testing {

/// With SHARDWRIGHT_FULL=1, which scripts/test.sh --full sets, all is asked: else a sample that always is the same.
inline bool is_full() { return std::getenv("SHARDWRIGHT_FULL"); }

/// Of `all` in full: half of them, and a fifth with SHARDWRIGHT_FEW_DRAWS: under a sanitizer each takes ten times as long.
inline unsigned draws(unsigned all) {
  if (std::getenv("SHARDWRIGHT_FEW_DRAWS")) return std::max(1u, all / 5);
  return is_full() ? all : (all + 1) / 2;
}

/// Whether mix `k` of a table with so many columns is asked: of each `of` one, in the next row those beside them, so that every
/// row has some, and every column.
inline bool is_asked(unsigned k, unsigned columns, unsigned of = 2) {
  return is_full() || (k / columns + k % columns) % of == 0;
}

/// What is added to the seeds of random tests: SHARDWRIGHT_SEED, which scripts/test.sh --full takes from the clock, or 0.
inline std::uint64_t further_seeds() {
  const char* said = std::getenv("SHARDWRIGHT_SEED");
  return said ? std::strtoull(said, nullptr, 10) : 0;
}

}  // namespace shardwright::testing
