// A step in time: the lists of ranks (lower/step.h) beside each other, as far as they wait for one another.
//
// What a rank does by itself is timed before, section by section. Here only what crosses between stages counts: a
// value is there some seconds after its send has started, and who finishes a receive waits until then. Sends wait for
// nobody.
#pragma once

#include <vector>

#include "shardwright/lower/step.h"

namespace shardwright {

/// A section of a rank's step.
struct TimedSection {
  struct Mark {
    double seconds = 0;  // from the section's begin
    Instruction instruction;
  };
  double seconds = 0;
  std::vector<Mark> crossings;  // where they start and finish
};

/// A rank's step, with its sections in time. The ranks of a stage do the same, so one of them stands for all.
struct TimedStep {
  RankStep step;
  std::vector<TimedSection> sections;
};

/// When each of `ranks` has done its step, if what crosses takes so many seconds, by crossing.
/// Cost: linear in tasks and in what crosses.
std::vector<double> ends_of(const std::vector<TimedStep>& ranks, const std::vector<double>& crossing_seconds);

}  // namespace shardwright
