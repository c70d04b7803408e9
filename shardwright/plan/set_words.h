// What --set says beside constraints: words that count what only a whole plan has, so that a search and --fix have none of them.
//
//   stage_layers=9-10-10-9     layers of each stage, in the order of the network, chunks counted
//   recompute_layers=8-4-0-0   of these the first so many are computed again; one number: of each stage
//   recompute_together=2       so many in a row at one go
//   optimizer_instances=2      so many groups of replicas have a state each: zero_group, by the number of groups
#pragma once

#include <string>
#include <vector>

#include "shardwright/plan/constraints.h"
#include "shardwright/plan/recompute_layers.h"

namespace shardwright {

struct PlanWords {
  Constraints said;
  std::vector<int> stage_layers = {};  // empty: it is not said
  LayersAgain again = {};
};

/// Throws: Error as parse_constraints, and on numbers that are none, or that say the same as another word.
PlanWords parse_set(const Given& given);

/// Of these words, which constraints have not.
std::vector<std::string> set_word_names();

/// `9-10-10-9`
std::string numbers_text(const std::vector<int>& numbers);

}  // namespace shardwright
