#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/cli/planning.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/report.h"
#include "shardwright/passes/compile.h"

namespace shardwright::verbs {
namespace {

/// The plan's document with what it is expected to take.
std::string document(const Plan& plan, const Estimate& e) {
  nlohmann::ordered_json out = nlohmann::ordered_json::parse(to_json(plan));
  out["step_seconds"] = e.step_seconds();
  if (plan.lower_bound_seconds) {
    out["lower_bound_seconds"] = *plan.lower_bound_seconds;
    out["gap"] = e.step_seconds() / *plan.lower_bound_seconds - 1;
  }
  out["memory_bytes"] = {
      {"parameters", e.parameter_bytes}, {"optimizer_state", e.state_bytes}, {"arena", e.arena_bytes}};
  out["fits"] = true;
  out["collectives_per_step"] = e.collectives;
  out["bytes_communicated_per_step"] = e.bytes_communicated;
  return out.dump();
}

int run(const Arguments& arguments, Terminal& terminal) {
  Model model = model_of(arguments, terminal);
  add_train_step(model.graph, model.loss, optimizer_of(arguments));
  const Plan plan = plan_of(arguments, model, model.graph);
  const Estimate e = estimate(compile(model.graph, plan), cluster_called(plan.cluster));
  if (arguments.has("-o")) save_plan(plan, arguments.text("-o"));
  if (arguments.has("--json"))
    terminal.out << document(plan, e) << "\n";
  else
    terminal.out << plan_table(plan, e);
  return 0;
}

}  // namespace

std::vector<Verb> plan() {
  std::vector<Flag> flags =
      planning_flags({{"-o", "FILE", "save the plan", ""}, {"--json", "", "one JSON document", ""}});
  for (Flag& f : optimizer_flags()) flags.push_back(std::move(f));
  return {{.name = "plan",
           .doc = "find how to split every operator, and say why",
           .positionals = {"MODEL"},
           .flags = std::move(flags),
           .example = "shardwright plan ffn --devices 8 -o plan.json",
           .run = run}};
}

}  // namespace shardwright::verbs
