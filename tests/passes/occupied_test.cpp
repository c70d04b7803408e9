#include "shardwright/passes/occupied.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace shardwright {
namespace {

struct Placed {
  Lifetime life;
  std::int64_t offset, bytes;
};

/// What lowest_free promises, read as it stands.
std::int64_t lowest_free(const std::vector<Placed>& placed, Lifetime life, std::int64_t bytes,
                         std::int64_t from) {
  for (std::int64_t offset = from;; ++offset) {
    const bool is_free = std::none_of(placed.begin(), placed.end(), [&](const Placed& p) {
      return p.life.begin <= life.end && life.begin <= p.life.end && p.offset < offset + bytes &&
             offset < p.offset + p.bytes;
    });
    if (is_free) return offset;
  }
}

TEST(Occupied, finds_the_lowest_place_that_is_free_over_a_whole_life) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int round = 0; round < 60; ++round) {
    const int times = 1 + below(40);
    Occupied occupied(times);
    std::vector<Placed> placed;
    for (int i = 0; i < 60; ++i) {
      const int a = below(times), b = below(4) == 0 ? times - 1 : std::min(times - 1, a + below(6));
      const Lifetime life{a, std::max(a, b)};
      const std::int64_t bytes = 1 + below(9), from = below(5);
      const std::int64_t offset = occupied.lowest_free(life, bytes, from);
      ASSERT_EQ(offset, lowest_free(placed, life, bytes, from)) << "round " << round << ", buffer " << i;
      if (below(8) == 0) continue;  // a question alone takes nothing
      occupied.take(life, offset, bytes);
      placed.push_back({life, offset, bytes});
    }
  }
}

}  // namespace
}  // namespace shardwright
