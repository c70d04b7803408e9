// What a program will take on a cluster: the lists of its ranks (lower/step.h), simulated (simulate/simulation.h), and
// what that adds up to.
//
// Where a node waits for its transfer, the transfer is *exposed*. A step takes compute, exposed communication, and, with
// stages, waiting for others.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/cost/framework.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/lower/program.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/memory.h"
#include "shardwright/simulate/operator_seconds.h"
#include "shardwright/simulate/simulation.h"
#include "shardwright/simulate/step_trace.h"

namespace shardwright {

struct Estimate {
  double compute_seconds = 0;                // cost/compute.h, kernel by kernel
  double recompute_seconds = 0;              // of these, what the forward has computed already
  double communication_seconds = 0;          // of all transfers
  double exposed_communication_seconds = 0;  // of these, what compute waits for
  double bubble_seconds = 0;                 // of a pipeline: its last stage to end waits for others
  OfPhases<double> phase_seconds;  // of a micro-batch forward and backward, and the update; one stage's
  OfPhases<double> phase_compute_seconds;  // of these, what is no waiting
  /// Of a step: transfers, by where they are; those of the update by who makes what they move.
  OfPhases<double> phase_communication_seconds;
  double repeated_peak_seconds = 0;  // the same for what is computed again
  double peak_seconds = 0;  // that all devices together at their peak take for the products, none done again
  std::int64_t parameter_bytes = 0;  // per device
  std::int64_t state_bytes = 0;
  std::int64_t arena_bytes = 0;            // everything on the device
  std::int64_t host_bytes = 0;             // in memory of the host, for each device
  std::int64_t host_bytes_moved = 0;       // per step, both ways, of one device
  double host_seconds = 0;                 // of all these copies
  MemoryUse memory;                        // the same, by kind
  std::string framework{own_framework};    // that has it so
  std::map<std::string, int> collectives;  // per step and rank, by kind
  std::int64_t bytes_communicated = 0;     // received per step by one rank
  std::vector<StageSeconds> operators;     // by stage of the pipeline: where compute and waiting go
  std::vector<Estimate> stages;  // of several: the devices of each for themselves, to the step's end

  double step_seconds() const { return compute_seconds + exposed_communication_seconds + bubble_seconds; }
  /// Share of the peak that contractions and convolutions reach over the whole step: model flops utilisation.
  double mfu() const { return peak_seconds / step_seconds(); }
  /// The same with what is computed again: hardware flops utilisation.
  double hfu() const { return (peak_seconds + repeated_peak_seconds) / step_seconds(); }
};

/// Cost: linear in the nodes; rules are read once per different call.
Estimate estimate(Program program, const Cluster& cluster);

/// Of the stage that works longest; memory of the one that needs most.
Estimate estimate(const Pipeline& pipeline, const Cluster& cluster);

/// Those of each stage; of one the whole.
std::span<const Estimate> stages_of(const Estimate& e);

/// A step as it is estimated, event by event: of the first rank of each stage, by group.
std::vector<SimulatedRank> simulated_ranks(const Pipeline& pipeline, const Cluster& cluster);
/// The same as a trace; `ranks` of `pipeline`.
StepTrace trace_of(const std::vector<SimulatedRank>& ranks, const Pipeline& pipeline);
StepTrace simulated_trace(const Pipeline& pipeline, const Cluster& cluster);

}  // namespace shardwright
