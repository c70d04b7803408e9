#include "shardwright/frontend/memory_limit.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/frontend/report.h"
#include "shardwright/passes/compile.h"

namespace shardwright {

std::function<double(const PlannedGraph&, const Cluster&)> price_within(std::optional<std::int64_t> bytes) {
  if (!bytes) return step_seconds;
  return [bytes](const PlannedGraph& planned, const Cluster& cluster) {
    const Estimate e = estimate(compile(planned, cluster), cluster);
    return e.arena_bytes <= *bytes ? e.step_seconds()
                                   : unfit_seconds * (1 + static_cast<double>(e.arena_bytes - *bytes));
  };
}

void check_memory(const Estimate& e, std::int64_t bytes, std::string_view limit) {
  if (e.arena_bytes <= bytes) return;
  std::vector<std::pair<std::int64_t, std::string>> parts{
      {e.parameter_bytes, "parameters"},
      {e.state_bytes, "optimizer state"},
      {e.arena_bytes - e.parameter_bytes - e.state_bytes, "activations, gradients and buffers"}};
  std::sort(parts.rbegin(), parts.rend());
  std::vector<std::string> told;
  for (const auto& [size, name] : parts)
    if (size > 0) told.push_back(fmt::format("{} {}", bytes_text(size), name));
  throw Infeasible(fmt::format("the plan takes {} of each device, {} more than {} allows: {}",
                               bytes_text(e.arena_bytes), bytes_text(e.arena_bytes - bytes), limit,
                               join(told, ", ")));
}

}  // namespace shardwright
