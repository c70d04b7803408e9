// Where the seconds of a step go, in parts that add up to it, and what one step takes more than another, part by part.
//
// They are those of the stage that works longest, as Estimate has them: its bubble reaches to the end of the step. What
// is computed again is a part of its own, and no compute.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "shardwright/simulate/estimate.h"

namespace shardwright {

struct StepParts {
  double compute = 0;
  double communication = 0;  // that compute waits for
  double bubble = 0;
  double recompute = 0;
  double other = 0;  // what the four leave of the whole: of figures that add up, their rounding
};
constexpr std::array<std::pair<std::string_view, double StepParts::*>, 5> step_parts{
    {{"compute", &StepParts::compute},
     {"communication", &StepParts::communication},
     {"bubble", &StepParts::bubble},
     {"recompute", &StepParts::recompute},
     {"other", &StepParts::other}}};

/// They add up to the step.
StepParts parts_of(const Estimate& e);

/// What a step takes more than another; below 0: less.
struct StepDifference {
  double step_seconds = 0;
  StepParts seconds;  // these add up to it
  std::int64_t arena_bytes = 0;
  BytesByKind bytes{};  // likewise, of the stage that has most
};
/// What `b` takes more than `a`.
StepDifference difference(const Estimate& a, const Estimate& b);

}  // namespace shardwright
