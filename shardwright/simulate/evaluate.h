// Prices and checks a plan without knowing who made it: searches, annotations and hands are judged alike.
#pragma once

#include <cstdint>
#include <optional>

#include "shardwright/cost/framework.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {

/// Of each device's memory, what driver and runtime leave.
std::int64_t left_bytes(const Cluster& cluster);
/// Of this, what a plan may use where nobody says how much: all but the margin that is kept free.
std::int64_t usable_bytes(const Cluster& cluster);

/// Of the kind of devices that has most.
std::int64_t most_usable_bytes(const Cluster& cluster);

/// Of the host's memory, what plans may use for each device; nothing if nobody has said how much that has.
std::optional<std::int64_t> usable_host_bytes(const Cluster& cluster);

struct EvaluateOptions {
  std::optional<std::int64_t> memory_cap;  // bytes of one device; none: what is usable of the cluster's
  std::string framework{own_framework};    // by whose memory it is judged
};

struct Evaluation {
  Estimate estimate;  // arena and workspace as the framework has them
  std::int64_t cap_bytes = 0;
  double room = 1;  // times what devices with least memory may use

  bool fits() const { return estimate.arena_bytes <= cap_bytes; }
  /// By how much it does not fit; estimate.memory names the largest consumers.
  std::int64_t excess_bytes() const { return fits() ? 0 : estimate.arena_bytes - cap_bytes; }
};

Evaluation evaluate(const Pipeline& pipeline, const Cluster& cluster, const EvaluateOptions& options = {});

/// What fits comes first, then what is faster; of what does not fit what misses least.
bool is_better(const Evaluation& a, const Evaluation& b);

}  // namespace shardwright
