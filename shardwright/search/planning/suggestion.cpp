#include "shardwright/search/planning/suggestion.h"

#include <algorithm>

#include "shardwright/passes/compile.h"
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

std::string suggestion_of(const StepOf& step, const PlanRequest& request, const Plan& plan,
                          const Plan& other) {
  if (other.settings.pipelining.stages == plan.settings.pipelining.stages) return "";
  const Evaluation has = evaluation_of(step, plan, request), would = evaluation_of(step, other, request);
  if (!is_better(would, has)) return "";
  return fmt::format("{} takes {:.4g} s instead of {:.4g} s{}", structure_text(other.settings),
                     would.estimate.step_seconds(), has.estimate.step_seconds(),
                     would.fits() && !has.fits() ? ", and fits" : "");
}

}  // namespace shardwright
