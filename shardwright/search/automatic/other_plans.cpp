#include "shardwright/search/automatic/other_plans.h"

#include <set>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/search/planning/least_memory.h"

namespace shardwright::automatic {

bool OtherPlans::is_hopeless() {
  const Graph* step = tables_.graph(1);
  const std::int64_t cap = request_.options.memory_cap.value_or(most_usable_bytes(*request_.cluster));
  return step && tables_.framework().name == own_framework && least_bytes(*step, request_.devices) > cap;
}

void OtherPlans::try_beside_best() {
  if (is_hopeless()) return;
  if (!fixes_settings(request_.constraints)) {
    try_plan(asked(), "recursive with what was asked");
    if (is_tiny())
      for (const double coeff : {1., 100.}) try_with_memory_at(coeff);
    if (is_tiny() && request_.devices > 1 && tables_.graph(1)) trials_.run_whole(*tables_.graph(1), request_);
  }
  PlanRequest as_best = asked();
  as_best.constraints = merged(std::move(as_best.constraints), constraints_of(trials_.best()->settings));
  try_plan(std::move(as_best), "recursive");
}

void OtherPlans::try_sparing() {
  if (fixes_settings(request_.constraints)) return;
  try_plan(asked(), "recursive with what was asked");
  try_with_memory_at(1);
}

PlanRequest OtherPlans::asked() {
  PlanRequest out = request_;
  out.options.tries_sparing = is_tiny();
  return out;
}

void OtherPlans::try_with_memory_at(double coeff) {
  PlanRequest other = asked();
  other.options.mem_coeff = coeff;
  try_plan(std::move(other), fmt::format("recursive with --mem-coeff {}", coeff));
}

void OtherPlans::try_instead(const std::vector<Constraints>& structures, std::size_t most) {
  const bool is_for_one = is_hopeless(), is_advice = request_.options.is_advice;
  std::set<std::pair<int, int>> seen;
  for (const Constraints& s : structures) {
    if (schedule_of(s).chunks > 1 || *s.micro_batches > 4 * stages_of(s)) continue;
    if (!seen.emplace(stages_of(s), *s.micro_batches).second) continue;
    if (seen.size() > most || (trials_.best() && (is_for_one || request_.options.deadline.is_over()))) return;
    if (is_advice && (trials_.does_fit() || left_of_advice_-- <= 0)) return;
    PlanRequest asked = with_structure(request_, s);
    asked.is_set = false;  // the search says how it is split
    try_plan(std::move(asked), fmt::format("recursive on {}", structure_text(s)));
  }
}

void OtherPlans::try_plan(PlanRequest asked, const std::string& what) {
  if (trials_.best() && request_.options.deadline.is_over()) return;
  if (const Graph* graph = tables_.graph(settings_of(asked).pipelining.micro_batches))
    trials_.run(*graph, std::move(asked), record_.add(what));
}

}  // namespace shardwright::automatic
