#include "shardwright/cli/plan_report.h"

#include <ostream>

#include "shardwright/cli/planning.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/report.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/plan_json.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

Json memory_json(const Estimate& e) {
  Json out;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    out[std::string(name_of(static_cast<MemoryKind>(k)))] = e.memory.bytes[k];
  out["arena"] = e.arena_bytes;
  for (const Estimate& stage : e.stages) out["stages"].push_back(memory_json(stage));
  return out;
}

/// Of a stage, whose bubble is what it waits for others.
Json stage_json(const Estimate& stage) {
  Json out{{"compute_seconds", stage.compute_seconds},
           {"exposed_communication_seconds", stage.exposed_communication_seconds},
           {"bubble_seconds", stage.bubble_seconds}};
  for (const MemoryConsumer& c : stage.memory.largest)
    out["largest"].push_back({{"name", c.name}, {"kind", name_of(c.kind)}, {"bytes", c.bytes}});
  return out;
}

/// The plan's document with what it is expected to take.
std::string document(const Plan& plan, const Evaluation& evaluation, const BatchSize& batch) {
  const Estimate& e = evaluation.estimate;
  Json out = json_of(plan);
  out["step_seconds"] = e.step_seconds();
  out["compute_seconds"] = e.compute_seconds;
  out["communication_seconds"] = e.communication_seconds;
  out["exposed_communication_seconds"] = e.exposed_communication_seconds;
  out["tokens_per_second"] =
      batch.count > 0 ? Json(static_cast<double>(batch.count) / e.step_seconds()) : nullptr;
  out["recompute_seconds"] = e.recompute_seconds;
  out["mfu"] = e.mfu();
  out["hfu"] = e.hfu();
  const auto bound = plan.lower_bound_seconds;
  out["lower_bound_seconds"] = bound ? Json(*bound) : nullptr;
  out["gap"] = bound ? Json(e.step_seconds() / *bound - 1) : nullptr;
  out["stages"] = plan.settings.pipelining.stages;
  out["micro_batches"] = plan.settings.pipelining.micro_batches;
  out["schedule"] =
      plan.stages.size() == 1 ? Json(nullptr) : Json(name_of(plan.settings.pipelining.schedule));
  out["bubble_seconds"] = e.bubble_seconds;
  out["bubble_fraction"] = e.bubble_seconds / e.step_seconds();
  out["memory_bytes"] = memory_json(e);
  for (const Estimate& stage : stages_of(e)) out["by_stage"].push_back(stage_json(stage));
  out["fits"] = evaluation.fits();
  out["collectives_per_step"] = e.collectives;
  out["bytes_communicated_per_step"] = e.bytes_communicated;
  return out.dump();
}

}  // namespace

Evaluation report(const Arguments& arguments, const Plan& plan, const Pipeline& pipeline,
                  const BatchSize& batch, const std::function<std::string(const Estimate&)>& table,
                  Terminal& terminal) {
  Evaluation evaluation = evaluation_of(arguments, pipeline, plan.cluster, plan.settings.framework);
  const std::string misfit = misfit_notice(evaluation, plan.cluster);
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  if (is_json)
    terminal.out << document(plan, evaluation, batch) << "\n";
  else
    terminal.out << table(evaluation.estimate);
  (is_json ? terminal.err : terminal.out) << misfit;
  return evaluation;
}

Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, Terminal& terminal) {
  const BatchSize batch = batch_size_of(model.graph, plan, model.tokens);
  return report(
      arguments, plan, compile_pipeline(model.graph, plan, compile_options_of(arguments)), batch,
      [&](const Estimate& e) { return step_table(model.graph, plan, e, batch); }, terminal);
}

}  // namespace shardwright
