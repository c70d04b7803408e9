#include "shardwright/search/planning/suggestion.h"

#include <algorithm>

#include "shardwright/base/quantity.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/batch.h"
#include "shardwright/plan/decided.h"
#include "shardwright/search/planning/settings.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

Evaluation evaluation_of(const StepOf& step, const Plan& plan, const PlanRequest& request) {
  const Graph graph = step(plan.settings.pipelining.batch_parts());
  return evaluate(compile_pipeline(graph, plan, {.formats = request.formats, .verifies = false}),
                  plan.cluster,
                  {.memory_cap = request.options.memory_cap, .framework = plan.settings.framework});
}

}  // namespace

std::string structure_text(const Settings& settings) {
  const Pipelining& p = settings.pipelining;
  std::string out = fmt::format("pp={},micro_batches={}", p.stages, p.micro_batches);
  if (p.stages > 1) out += fmt::format(",schedule={}", name_of(p.schedule));
  if (settings.optimizer_parallel.level > 0)
    out += fmt::format(",zero={}", settings.optimizer_parallel.level);
  if (settings.overlap_tensor) out += ",overlap_tensor=1";
  if (settings.recompute.is_on()) out += fmt::format(",recompute={}", to_text(settings.recompute));
  return out;
}

std::string structure_text(const Plan& plan) {
  if (!plan.structure.empty()) return plan.structure;
  std::string axes;
  const auto has_same_meshes = [&](const StagePlan& s) { return s.meshes == plan.stages.front().meshes; };
  const std::vector<Mesh>& meshes = plan.stages.front().meshes;
  if (meshes.size() == 1 && std::ranges::all_of(plan.stages, has_same_meshes))
    for (const Axis& axis : meshes.front().axes) axes += fmt::format("{}={},", axis.name, axis.size);
  return axes + structure_text(plan.settings) + "; operators one by one";
}

bool shares_work(const Plan& plan) {
  const Constraints decided = decided_by(plan, 0);
  return decided.degrees.sharing(Sharing::work) * decided.degrees.sharing(Sharing::sequence) > 1;
}

namespace {

std::string better_text(std::string_view what, const Evaluation& would, const Evaluation& has) {
  return fmt::format("{} takes {} instead of {}{}", what, seconds_text(would.estimate.step_seconds()),
                     seconds_text(has.estimate.step_seconds()),
                     would.fits() && !has.fits() ? ", and fits" : "");
}

/// The micro-batches of `p` side by side in twos; of too few, each is cut in two, if the batch may be cut otherwise.
Pipelining in_two_parts(Pipelining p, bool may_cut) {
  const bool is_paired = p.micro_batches % 2 == 0 && p.micro_batches / 2 >= p.stages;
  if (!is_paired && !may_cut) return p;
  if (is_paired) p.micro_batches /= 2;
  p.interleave = 2;
  return p;
}

}  // namespace

std::string suggestion_of(const StepOf& step, const PlanRequest& request, const Plan& plan,
                          const Plan& other) {
  if (other.settings.pipelining.stages == plan.settings.pipelining.stages) return "";
  const Evaluation has = evaluation_of(step, plan, request), would = evaluation_of(step, other, request);
  return is_better(would, has) ? better_text(structure_text(other.settings), would, has) : "";
}

std::string parts_suggestion_of(const StepOf& step, const PlanRequest& request, const Plan& plan) {
  constexpr double least_gain = 0.02;  // below that it is not worth a line
  if (request.constraints.interleave || !shares_work(plan)) return "";
  const Graph graph = step(plan.settings.pipelining.batch_parts());
  Plan other = plan;
  Pipelining& p = other.settings.pipelining;
  p = in_two_parts(p, !request.kept_micro_batches && !mixes_samples(graph));
  if (p == plan.settings.pipelining || !refusal_of(p).empty()) return "";
  other.fingerprint = fingerprint_of(step(p.batch_parts()));
  const Evaluation has = evaluation_of(step, plan, request), would = evaluation_of(step, other, request);
  if (!is_better(would, has) ||
      would.estimate.step_seconds() > (1 - least_gain) * has.estimate.step_seconds())
    return "";
  return better_text(fmt::format("micro_batches={},micro_batch_interleave={}", p.micro_batches, p.interleave),
                     would, has);
}

}  // namespace shardwright
