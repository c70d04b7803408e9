#include "shardwright/explain/unfixed.h"

#include "shardwright/base/attempt.h"
#include "shardwright/base/progress.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/suggestion.h"

namespace shardwright {
namespace {

bool names_operators(const Constraints& c) {
  return !c.operators.empty() || !c.tensors.empty() || !c.stages.empty() || !c.recomputed.empty() ||
         c.dataset;
}

PlanRequest opened(PlanRequest request) {
  for (const ConstraintWord& word : constraint_words())
    if (word.is_chosen) word.open(request.constraints);
  request.parallel = Parallel::auto_parallel;
  request.is_set = false;
  request.auto_pipeline.reset();
  request.stock = nullptr;
  return request;
}

}  // namespace

std::optional<Unfixed> unfixed_of(const Judged& judged, const StepOf& step) {
  if (fixed_text(judged.request).empty() || names_operators(judged.request.constraints)) return {};
  const PlanRequest request = opened(judged.request);
  if (request.options.deadline.is_over() || !chooses_structure(request)) return {};
  const Doing doing(request.options.deadline.progress(), "what it costs that something is fixed");
  std::string why;  // there is no such plan
  return attempt(why, [&] {
    const Plan plan = make_plan(step, request);
    const Evaluation e = evaluate(
        compile_pipeline(step(plan.settings.pipelining.micro_batches), plan,
                         {.formats = request.formats, .verifies = false}),
        plan.cluster, {.memory_cap = judged.evaluation.cap_bytes, .framework = plan.settings.framework});
    return Unfixed{structure_text(plan), e.estimate.step_seconds(), e.estimate.arena_bytes, e.fits()};
  });
}

}  // namespace shardwright
