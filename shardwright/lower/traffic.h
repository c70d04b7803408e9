// What one rank asks of the others in a step.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "shardwright/lower/step.h"

namespace shardwright {

struct Traffic {
  std::map<std::string_view, int> collectives;  // by kind; local steps are not counted
  std::int64_t bytes = 0;                       // received
};

Traffic traffic_of(const RankStep& step);

/// How often a step starts each of its transfers.
std::vector<int> times_started(const RankStep& step);

}  // namespace shardwright
