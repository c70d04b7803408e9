// What `auto` chooses of a step beside the strategies of its operators.
#pragma once

#include <string>
#include <vector>

#include "shardwright/annotations/degrees.h"
#include "shardwright/plan/recompute.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright::automatic {

struct Structure {
  Degrees degrees = {};
  Pipelining pipelining = {};
  int zero = 0;  // level of optimizer parallelism
  RecomputeMode recompute = RecomputeMode::none;
  /// Of each stage as many layers as memory wants are computed again whole; `recompute` is of the others.
  bool repeats_layers = false;

  int stage_devices() const { return degrees.data * degrees.tensor; }
  bool operator==(const Structure&) const = default;
};

/// As --set says it: `dp=4,tp=2,pp=2,micro_batches=8,zero=1,recompute=full,schedule=1f1b,sequence_parallel=1`.
std::string to_text(const Structure& s);

/// What `request` asks, with all that `s` says: nothing of the structure is left to choose.
PlanRequest with_structure(PlanRequest request, const Structure& s);

/// What is left open of a step.
struct OpenStep {
  std::int64_t samples = 1;
  std::vector<int> counts;      // of micro-batches
  bool repeats_layers = false;  // there are layers, of which some may be computed again
};
/// Every structure that `request` leaves open for a step. Stages that can only wait for each other are among them where
/// there is nothing else.
std::vector<Structure> structures_of(const PlanRequest& request, const OpenStep& step);

/// Throws: Error if operators or data of `request` are fixed one by one, which is for other searches.
void check_free(const PlanRequest& request);

/// What `request` fixes that together leaves no structure, as a user says it: ` (dp=3, micro_batches=2)`; empty if it is
/// nothing.
std::string conflict_text(const PlanRequest& request, const OpenStep& step);

}  // namespace shardwright::automatic
