// What a program will take on a cluster, instruction by instruction: the lists of its ranks (lower/step.h) are timed.
//
// Two streams run beside each other. Compute runs the nodes in their order; communication runs the transfers in the
// order in which they may start (Program::starts), one at a time, and one that is waited for first. While compute works
// for t seconds, transfers get overlap * t seconds of their work done (Cluster::overlap); where a node waits for its
// transfer, what is left of it is exposed. A step takes compute + exposed communication.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/lower/program.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/memory.h"
#include "shardwright/simulate/operator_seconds.h"

namespace shardwright {

struct Estimate {
  double compute_seconds = 0;                // cost/compute.h, kernel by kernel
  double recompute_seconds = 0;              // of these, what the forward has computed already
  double communication_seconds = 0;          // of all transfers
  double exposed_communication_seconds = 0;  // of these, what compute waits for
  double bubble_seconds = 0;                 // of a pipeline: its last stage to end waits for others
  std::array<double, 3>
      phase_seconds{};      // of one micro-batch forward and backward, and the update; one stage's
  double peak_seconds = 0;  // that all devices together at their peak take for the products, none done again
  std::int64_t parameter_bytes = 0;  // per device
  std::int64_t state_bytes = 0;
  std::int64_t arena_bytes = 0;            // everything
  MemoryUse memory;                        // the same, by kind
  std::map<std::string, int> collectives;  // per step and rank, by kind
  std::int64_t bytes_communicated = 0;     // received per step by one rank
  std::vector<StageSeconds> operators;     // by stage of the pipeline: where compute and waiting go
  std::vector<Estimate> stages;            // of several: the devices of each for themselves

  double step_seconds() const { return compute_seconds + exposed_communication_seconds + bubble_seconds; }
  /// Share of the peak that contractions and convolutions reach over the whole step: model flops utilisation.
  double mfu() const { return peak_seconds / step_seconds(); }
};

/// Cost: linear in the nodes; rules are read once per different call.
Estimate estimate(Program program, const Cluster& cluster);

/// Of the stage that works longest; memory of the one that needs most. Stages run their tasks in their order, as soon as
/// what they receive is there; sends take the slowest link.
Estimate estimate(const Pipeline& pipeline, const Cluster& cluster);

}  // namespace shardwright
