#include "shardwright/search/planning/judge.h"

#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/decisions.h"

namespace shardwright {

bool is_large(const Problem& problem) { return problem.graph->nodes.size() > 600; }
double memory_margin(const Problem& problem) { return is_large(problem) ? 1.75 : 3; }

std::int64_t Judge::cap_bytes() const { return request_.options.memory_cap.value_or(usable_bytes(cluster_)); }

Evaluation Judge::evaluate(const SearchResult& tried) const {
  Choices choices = decisions_of(fixed_, tried, graph_, calls_, plan_.settings.optimizer_parallel).choices;
  const Evaluation* known = evaluated_ ? evaluated_->find(plan_.settings, choices) : nullptr;
  if (!known && evaluated_) known = evaluated_->add(plan_.settings, choices, made(choices));
  Evaluation out = known ? *known : made(std::move(choices));
  out.cap_bytes = cap_bytes();
  if (judged_) judged_->add(tried, out);
  return out;
}

Evaluation Judge::made(Choices choices) const {
  PlannedGraph planned =
      written(graph_, std::move(choices), plan_.settings, request_.micro_batches, request_.has_layers);
  return shardwright::evaluate(
      compile(std::move(planned), cluster_, {.formats = request_.formats, .verifies = request_.verifies}),
      cluster_, {.memory_cap = cap_bytes(), .framework = plan_.settings.framework});
}

}  // namespace shardwright
