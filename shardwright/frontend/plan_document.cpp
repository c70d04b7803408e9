#include "shardwright/frontend/plan_document.h"

#include "shardwright/plan/plan_json.h"

namespace shardwright {

Json memory_json(const Estimate& e) {
  Json out;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    out[std::string(name_of(static_cast<MemoryKind>(k)))] = e.memory.bytes[k];
  out["host"] = e.host_bytes;
  out["arena"] = e.arena_bytes;
  if (const Framework& f = framework_called(e.framework); f.reserve > 0)
    out["reserved"] = f.reserved(e.arena_bytes);
  for (const Estimate& stage : e.stages) out["stages"].push_back(memory_json(stage));
  return out;
}

namespace {

/// Of a stage, whose bubble is what it waits for others.
Json stage_json(const Estimate& stage) {
  Json out{{"compute_seconds", stage.compute_seconds},
           {"exposed_communication_seconds", stage.exposed_communication_seconds},
           {"bubble_seconds", stage.bubble_seconds}};
  for (const MemoryConsumer& c : stage.memory.largest)
    out["largest"].push_back({{"name", c.name}, {"kind", name_of(c.kind)}, {"bytes", c.bytes}});
  return out;
}

}  // namespace

Json plan_document(const Plan& plan, const Evaluation& evaluation, const BatchSize& batch) {
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
  if (!plan.suggestion.empty()) out["suggestion"] = plan.suggestion;
  if (!plan.objective.empty()) out["objective"] = plan.objective;
  if (const auto price = plan.cluster.price_of(e.step_seconds())) out["price"] = *price;
  out["collectives_per_step"] = e.collectives;
  out["bytes_communicated_per_step"] = e.bytes_communicated;
  if (plan.settings.offload.is_on()) {
    out["host_bytes_per_step"] = e.host_bytes_moved;
    out["host_copy_seconds"] = e.host_seconds;
  }
  return out;
}

}  // namespace shardwright
