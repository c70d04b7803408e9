// A plan as a strategy file: how its operators are split, and how parameters lie in the program that is compiled of it.
#pragma once

#include <string>
#include <vector>

#include "shardwright/annotations/strategy_file.h"
#include "shardwright/graph/graph.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

struct PlannedStrategies {
  StrategyFile file;
  std::vector<std::string> left_out;  // what such a file cannot say: a line each
};

/// `graph` is what `plan` is for, and `pipeline` is compiled of both.
PlannedStrategies strategies_of(const Graph& graph, const Plan& plan, const Pipeline& pipeline);

}  // namespace shardwright
