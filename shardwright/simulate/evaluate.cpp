#include "shardwright/simulate/evaluate.h"

#include "shardwright/passes/compile.h"

namespace shardwright {

std::int64_t usable_bytes(const Cluster& cluster) { return cluster.memory_bytes - cluster.reserved_bytes; }

Evaluation evaluate(const Pipeline& pipeline, const Cluster& cluster, const EvaluateOptions& options) {
  return {.estimate = estimate(pipeline, cluster),
          .cap_bytes = options.memory_cap.value_or(usable_bytes(cluster))};
}

Evaluation evaluate(const PlannedGraph& planned, const Cluster& cluster, const EvaluateOptions& options) {
  return evaluate(compile(planned, cluster), cluster, options);
}

}  // namespace shardwright
