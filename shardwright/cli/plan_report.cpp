#include "shardwright/cli/plan_report.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/cli/planning.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/report.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"

namespace shardwright {
namespace {

/// The plan's document with what it is expected to take.
std::string document(const Plan& plan, const Estimate& e) {
  nlohmann::ordered_json out = nlohmann::ordered_json::parse(to_json(plan));
  out["step_seconds"] = e.step_seconds();
  out["tokens_per_second"] = nullptr;  // no model of tokens yet
  out["mfu"] = nullptr;                // the cluster cpu has no peak to speak of
  const auto bound = plan.lower_bound_seconds;
  out["lower_bound_seconds"] = bound ? nlohmann::ordered_json(*bound) : nullptr;
  out["gap"] = bound ? nlohmann::ordered_json(e.step_seconds() / *bound - 1) : nullptr;
  out["stages"] = 1;
  out["micro_batches"] = 1;
  out["schedule"] = nullptr;
  out["recompute"] = "none";
  out["memory_bytes"] = {
      {"parameters", e.parameter_bytes}, {"optimizer_state", e.state_bytes}, {"arena", e.arena_bytes}};
  out["fits"] = true;
  out["collectives_per_step"] = e.collectives;
  out["bytes_communicated_per_step"] = e.bytes_communicated;
  return out.dump();
}

}  // namespace

void report(const Arguments& arguments, const Model& model, const Plan& plan, Terminal& terminal) {
  const Estimate e =
      estimate(compile(model.graph, plan, {.formats = cpu_formats}), cluster_called(plan.cluster));
  check_memory(arguments, e);
  if (arguments.has("--json"))
    terminal.out << document(plan, e) << "\n";
  else
    terminal.out << plan_table(plan, e, Explainer(model.graph, plan).shares());
}

}  // namespace shardwright
