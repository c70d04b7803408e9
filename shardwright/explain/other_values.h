// What else a word of a plan's structure could say, as explain.h asks of an operator what else it could be.
//
//   recompute, schedule, zero        in its place: all else of the plan stays, operators' strategies, too
//   micro_batches,                   planned anew (explain/why_not.h), all other words as the plan has them; so are a
//   sequence_parallel                schedule of several chunks and zero=3, which lie otherwise
//   dp, tp, pp                       planned anew with all else open: devices are shared otherwise
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardwright/explain/why_not.h"

namespace shardwright {

struct OtherValue {
  std::string value;  // as constraints say it
  Constraints asked;
  WhyNot answer;
};

struct OtherValues {
  std::vector<OtherValue> told;
  std::vector<std::string> unasked = {};  // the time for searches was over
};

/// Whether `word` is one of these.
bool has_other_values(std::string_view word);

/// Of the values of `word` those that a search would try: the plan's first, then the fastest; what cannot be comes last.
/// Throws: Error if there is nothing to choose in this plan. Cost: a search for each.
OtherValues other_values(std::string_view word, const Plan& plan, const StepOf& step,
                         const WhyNotOptions& options);

}  // namespace shardwright
