#include "shardwright/search/automatic/neighbours.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shardwright::automatic {
namespace {

/// Micro-batches may be so many times more or fewer.
constexpr int most_times = 4;

bool are_near(int a, int b) { return std::max(a, b) <= most_times * std::min(a, b); }

/// One of the degrees is a part of what it was, and another one as many times more.
bool moves_one_factor(const Constraints& a, const Constraints& b) {
  const std::array<std::pair<int, int>, 4> degrees{std::pair{replicas_of(a), replicas_of(b)},
                                                   {contexts_of(a), contexts_of(b)},
                                                   {shards_of(a), shards_of(b)},
                                                   {stages_of(a), stages_of(b)}};
  int less = 0, more = 0;
  for (const auto& [from, to] : degrees) {
    if (from == to) continue;
    if (from % to == 0 && from / to <= most_times) {
      ++less;
    } else if (to % from == 0 && to / from <= most_times) {
      ++more;
    } else {
      return false;
    }
  }
  return less == 1 && more == 1;
}

}  // namespace

bool are_neighbours(const Constraints& a, const Constraints& b) {
  const bool same_degrees = replicas_of(a) == replicas_of(b) && contexts_of(a) == contexts_of(b) &&
                            shards_of(a) == shards_of(b) && stages_of(a) == stages_of(b);
  const bool same_count = a.micro_batches == b.micro_batches, same_again = a.recompute == b.recompute;
  const bool same_level = level_of(a) == level_of(b), same_schedule = schedule_of(a) == schedule_of(b);
  const bool same_sequence = splits_sequence(a) == splits_sequence(b);
  if (!same_count && !are_near(*a.micro_batches, *b.micro_batches)) return false;
  if (same_degrees) {
    const int differs = !same_level + !same_schedule + !same_sequence + (!same_count || !same_again);
    return differs == 1;
  }
  return same_level && same_again && moves_one_factor(a, b) &&
         (same_schedule || stages_of(a) == 1 || stages_of(b) == 1) &&
         (same_sequence || shards_of(a) == 1 || shards_of(b) == 1);
}

}  // namespace shardwright::automatic
