#include "shardwright/simulate/evaluate.h"

namespace shardwright {

std::int64_t usable_bytes(const Cluster& cluster) { return cluster.memory_bytes - cluster.reserved_bytes; }

Evaluation evaluate(const Pipeline& pipeline, const Cluster& cluster, const EvaluateOptions& options) {
  return {.estimate = estimate(pipeline, cluster),
          .cap_bytes = options.memory_cap.value_or(usable_bytes(cluster))};
}

bool is_better(const Evaluation& a, const Evaluation& b) {
  if (a.excess_bytes() != b.excess_bytes()) return a.excess_bytes() < b.excess_bytes();
  return a.estimate.step_seconds() < b.estimate.step_seconds();
}

}  // namespace shardwright
