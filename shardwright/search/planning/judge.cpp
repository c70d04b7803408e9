#include "shardwright/search/planning/judge.h"

#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/decisions.h"

namespace shardwright {

bool is_large(const Problem& problem) { return problem.graph->nodes.size() > 600; }
double memory_margin(const Problem& problem) { return is_large(problem) ? 1.75 : 3; }

std::int64_t Judge::cap_bytes() const { return request_.options.memory_cap.value_or(usable_bytes(cluster_)); }

Evaluation Judge::evaluate(const SearchResult& tried) const {
  Decisions decided = decisions_of(fixed_, tried, graph_, calls_, plan_.settings.optimizer_parallel);
  PlannedGraph planned = written(graph_, std::move(decided.choices), plan_.settings, request_.micro_batches,
                                 request_.has_layers);
  const Evaluation out = shardwright::evaluate(
      compile(std::move(planned), cluster_, {.formats = request_.formats, .verifies = request_.verifies}),
      cluster_, {.memory_cap = cap_bytes(), .framework = plan_.settings.framework});
  if (judged_) judged_->add(tried, out);
  return out;
}

}  // namespace shardwright
