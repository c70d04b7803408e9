// What a program will take on a cluster, node by node: the program itself is the model of the step.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "shardwright/cost/cluster.h"
#include "shardwright/lower/program.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

struct Estimate {
  double compute_seconds = 0;        // roofline: flops or bytes touched, whichever takes longer
  double communication_seconds = 0;  // not overlapped
  std::int64_t parameter_bytes = 0;  // per device
  std::int64_t state_bytes = 0;
  std::int64_t arena_bytes = 0;            // everything
  std::map<std::string, int> collectives;  // per step and rank, by kind
  std::int64_t bytes_communicated = 0;     // received per step by one rank

  double step_seconds() const { return compute_seconds + communication_seconds; }
};

Estimate estimate(const Program& program, const Cluster& cluster);

/// Seconds of a step of a planned graph: lowered, optimized and timed. What PlanRequest::price wants.
double step_seconds(const PlannedGraph& planned, const Cluster& cluster);

}  // namespace shardwright
