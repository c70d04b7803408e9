#include "shardwright/simulate/evaluate.h"

#include <algorithm>
#include <limits>

#include "shardwright/cost/mixed_cluster.h"
#include "shardwright/simulate/framework_memory.h"

namespace shardwright {

std::int64_t left_bytes(const Cluster& cluster) { return cluster.memory_bytes - cluster.reserved_bytes; }

std::int64_t usable_bytes(const Cluster& cluster) {
  const std::int64_t left = left_bytes(cluster);
  return left - static_cast<std::int64_t>(cluster.margin() * static_cast<double>(left));
}

std::int64_t most_usable_bytes(const Cluster& cluster) {
  std::int64_t most = usable_bytes(cluster);
  for (const Cluster& kind : kinds_of(cluster)) most = std::max(most, usable_bytes(kind));
  return most;
}

std::optional<std::int64_t> usable_host_bytes(const Cluster& cluster) {
  if (cluster.host.memory_bytes == 0) return {};
  constexpr double share = 0.8;  // the rest is the system's, of what loads data, and of what saves
  return static_cast<std::int64_t>(share * static_cast<double>(cluster.host.memory_bytes)) /
         cluster.devices_per_node;
}

namespace {

void set_memory(Estimate& e, const BytesByKind& bytes) {
  e.memory.bytes = bytes;
  e.arena_bytes = total_of(bytes);
}

/// The same with the memory of `framework`. What a whole step has is that of the stage that has most.
Estimate with_framework(Estimate e, const Pipeline& pipeline, const Cluster& cluster,
                        std::string_view framework) {
  if (framework == own_framework) return e;
  e.framework = framework;
  const std::vector<BytesByKind> bytes =
      framework_memory(pipeline, framework_called(framework), cluster.routing_imbalance);
  if (e.stages.empty()) {
    set_memory(e, bytes.front());
    return e;
  }
  for (std::size_t g = 0; g < e.stages.size(); ++g) {
    set_memory(e.stages[g], bytes[g]);
    e.stages[g].framework = framework;
  }
  const Estimate& most = *std::ranges::max_element(e.stages, {}, &Estimate::arena_bytes);
  e.arena_bytes = most.arena_bytes;
  e.memory = most.memory;
  return e;
}

/// Where devices hold unlike much, what is told of memory is that of the stage that leaves least of its own's.
void tell_tightest(Evaluation& e, const Pipeline& pipeline, const Cluster& cluster) {
  std::int64_t least_room = std::numeric_limits<std::int64_t>::max();
  for (std::size_t g = 0; g < e.estimate.stages.size(); ++g) {
    const int stage = static_cast<int>(g);
    const Estimate& own = e.estimate.stages[g];
    const std::int64_t cap =
        usable_bytes(cluster.part(pipeline.first_rank(stage), pipeline.stage(stage).rank_count()));
    if (cap - own.arena_bytes >= least_room) continue;
    least_room = cap - own.arena_bytes;
    e.cap_bytes = cap;
    e.room = static_cast<double>(cap) / static_cast<double>(usable_bytes(cluster));
    e.estimate.arena_bytes = own.arena_bytes;
    e.estimate.memory = own.memory;
  }
}

}  // namespace

Evaluation evaluate(const Pipeline& pipeline, const Cluster& cluster, const EvaluateOptions& options) {
  Evaluation out{
      .estimate = with_framework(estimate(pipeline, cluster), pipeline, cluster, options.framework),
      .cap_bytes = options.memory_cap.value_or(usable_bytes(cluster))};
  if (!cluster.kinds.empty() && !options.memory_cap) tell_tightest(out, pipeline, cluster);
  return out;
}

bool is_better(const Evaluation& a, const Evaluation& b) {
  if (a.excess_bytes() != b.excess_bytes()) return a.excess_bytes() < b.excess_bytes();
  return a.estimate.step_seconds() < b.estimate.step_seconds();
}

}  // namespace shardwright
