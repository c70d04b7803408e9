// What `auto` chooses of a step beside the strategies of its operators.
#pragma once

#include <string>
#include <vector>

#include "shardwright/annotations/degrees.h"
#include "shardwright/plan/recompute.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright::search {

struct Structure {
  Degrees degrees = {};
  Pipelining pipelining = {};
  int zero = 0;  // level of optimizer parallelism
  RecomputeMode recompute = RecomputeMode::none;

  int stage_devices() const { return degrees.data * degrees.tensor; }
  bool operator==(const Structure&) const = default;
};

/// As --set says it: `dp=4,tp=2,pp=2,micro_batches=8,zero=1,recompute=full,schedule=1f1b,sequence_parallel=1`.
std::string to_text(const Structure& s);

/// What `request` asks, with all that `s` says: nothing of the structure is left to choose.
PlanRequest with_structure(PlanRequest request, const Structure& s);

/// Every structure that `request` leaves open for a step of `samples`; `counts`: of micro-batches.
std::vector<Structure> structures_of(const PlanRequest& request, std::int64_t samples,
                                     const std::vector<int>& counts);

}  // namespace shardwright::search
