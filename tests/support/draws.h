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

/// Whether mix `k` of a table of many is asked: of each `of` about one, in no pattern that columns of the table have, too.
inline bool is_asked(unsigned k, unsigned of = 2) {
  k = (k ^ k >> 16) *
      0x7feb352dU;  // bits of k, mixed ("lowbias32" of Ch. Wellons' search for hash functions)
  k = (k ^ k >> 15) * 0x846ca68bU;
  return is_full() || (k ^ k >> 16) % of == 0;
}

/// What is added to the seeds of random tests: SHARDWRIGHT_SEED, which scripts/test.sh --full takes from the clock, or 0.
inline std::uint64_t further_seeds() {
  const char* said = std::getenv("SHARDWRIGHT_SEED");
  return said ? std::strtoull(said, nullptr, 10) : 0;
}

}  // namespace shardwright::testing
