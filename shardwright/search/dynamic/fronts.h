// The Pareto set of a sum of tables: every choice that no other beats in seconds and bytes at once.
//
// By the same eliminations as the minimum (space/minimum.h), a table's entries being sets of (seconds, bytes) instead of
// numbers: operators with two neighbours become an edge, parallel edges one, operators with one neighbour part of it. A set
// is pruned after every step; memory counts in it, so that no plan that fits is lost for one that does not.
#pragma once

#include <span>
#include <vector>

#include "shardwright/search/space/minimum.h"

namespace shardwright::dynamic {

struct ParetoPlan {
  double seconds = 0, bytes = 0;
  std::vector<int> choices;  // per variable
};

struct ParetoSet {
  std::vector<ParetoPlan> plans;  // fastest first, each with fewer bytes than the one before
  bool is_exact = true;           // no set was thinned, no variable fixed to what looked best
};

struct ParetoOptions {
  std::size_t most_points = 64;                // of a set, at least 2; more are thinned evenly
  std::vector<std::vector<int>> choices = {};  // per variable, those to look at; empty: all
  Deadline deadline = {};                      // from then on of each set only its two ends are looked at
};

/// `bytes`: per variable and choice; a variable beyond its end takes none.
/// Cost: O(variables * choices^3 * points^2).
ParetoSet pareto_set(const space::TableSum& seconds, std::span<const std::vector<double>> bytes,
                     const ParetoOptions& options = {});

}  // namespace shardwright::dynamic
