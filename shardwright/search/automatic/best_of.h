// What a search of whole plans is run for again: below the memory that its best plan takes, and with a part of it on the
// host.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "shardwright/plan/plan.h"
#include "shardwright/search/automatic/misses.h"
#include "shardwright/search/automatic/tables.h"
#include "shardwright/simulate/memory.h"

namespace shardwright::automatic {

struct Found {
  Plan plan;
  std::vector<Tried> tried;
  bool fits = false;
  double seconds = 0;
  std::int64_t bytes = 0;   // of a device
  BytesByKind memory = {};  // the same by kind
  std::optional<double> bound =
      {};  // seconds: no plan that was asked for takes less; not known with a `worth`
};
/// Of structures that may take less than `worth` seconds; takes and leaves what programs took beside forecasts. Throws: Infeasible if
/// nothing can be split.
using Run = std::function<Found(Tables&, Misses&, const PlanRequest&, double worth)>;

/// Throws: as `run` for all plans.
Plan best_of(const StepOf& step, const PlanRequest& request, const Run& run);

}  // namespace shardwright::automatic
