// What an expert tries by hand: structures that are usual, and what is one change away from one.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/search/automatic/structure.h"

namespace shardwright {

struct Structures {
  int devices = 1;
  std::int64_t samples = 1;  // of a step
  std::vector<int> counts;   // of micro-batches, smallest first

  /// One stage with all states shared, and interleaved stages of tensor parallelism; micro-batches of few samples.
  std::vector<Constraints> usual() const;
  /// A factor of one degree moved to another, with micro-batches as many as before and as large; more or fewer of them,
  /// with each recompute; another level, recompute, schedule or split of the sequence.
  std::vector<Constraints> neighbours(const Constraints& s) const;

 private:
  void add(std::vector<Constraints>& out, Constraints s) const;
  void add_degrees(std::vector<Constraints>& out, const Constraints& from) const;
};

}  // namespace shardwright
