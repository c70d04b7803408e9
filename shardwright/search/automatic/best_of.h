// What a search of whole plans is run for again: below the memory that its best plan takes, and with a part of it on the
// host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/plan/plan.h"
#include "shardwright/search/automatic/misses.h"
#include "shardwright/search/automatic/tables.h"
#include "shardwright/simulate/memory.h"

namespace shardwright::automatic {

/// How much a search has looked at.
struct Looked {
  std::size_t structures = 0, forecasts = 0, programs = 0;

  std::string text() const;
  /// At the same structures, with less of them on the devices.
  void add_again(const Looked& other) { forecasts += other.forecasts, programs += other.programs; }
  /// At others.
  void add(const Looked& other) { structures += other.structures, add_again(other); }
};

struct Found {
  Plan plan;  // of what was looked at it only tells how that ended
  std::vector<Tried> tried;
  bool fits = false;
  double seconds = 0;
  std::int64_t bytes = 0;   // of a device
  BytesByKind memory = {};  // the same by kind
  std::optional<double> bound =
      {};  // seconds: no plan that was asked for takes less; not known with a `worth`
  Looked looked = {};
};
/// Of structures that may take less than `worth` seconds; takes and leaves what programs took beside forecasts. Throws: Infeasible if
/// nothing can be split.
using Run = std::function<Found(Tables&, Misses&, const PlanRequest&, double worth)>;

/// Throws: as `run` for all plans.
Plan best_of(const StepOf& step, const PlanRequest& request, const Run& run);

}  // namespace shardwright::automatic
