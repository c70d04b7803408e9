// What a search along axes has found, and how it is told: strategies on a mesh of few, named axes, each with a reason, and
// the log of all choices.
#pragma once

#include <string>
#include <vector>

#include "shardwright/search/recursive/cut_seconds.h"
#include "shardwright/search/recursive/symbolic.h"
#include "shardwright/search/space/axes.h"

namespace shardwright::recursive {

/// The axes that the machine is cut along, outermost first.
struct Ladder {
  FixedChoices fixed;                // on these axes
  const CutProblem* cuts = nullptr;  // before the first
  std::vector<AxisLevel> levels;
};

struct Solution {
  const Ladder* ladder = nullptr;
  CutProblem problem;
  CutWeights weights;  // under which it is the least
  CutTotals totals;
  struct Level {
    CutTables tables;
    std::vector<int> chosen;
  };
  std::vector<Level> levels;                                   // per axis
  std::vector<std::vector<SymbolicCosts::Decision>> symbolic;  // per axis, where symbolic costs decided
  std::vector<std::string> log;
};

SearchResult result_of(const Problem& problem, const Solution& solution, const CutSeconds& seconds);

/// Choices by seconds: of every main operator along every axis, the others being as they were chosen.
std::vector<std::string> log_of(const Solution& solution, const CutSeconds& seconds);

}  // namespace shardwright::recursive
