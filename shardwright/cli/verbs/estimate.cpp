#include "shardwright/base/error.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/planning.h"

namespace shardwright::verbs {
namespace {

/// A plan file decides everything.
int report_file(const Arguments& arguments, Terminal& terminal) {
  const std::string& path = arguments.positionals[0];
  for (const auto& [flag, value] : arguments.flags)
    if (flag != "--json") throw error("{}: the plan {} has decided it; plan again, with -o", flag, path);
  const PlannedModel made = planned_model(path);
  report(arguments, made.model, made.plan, terminal);
  return 0;
}

int run(const Arguments& arguments, Terminal& terminal) {
  if (is_plan_file(arguments.positionals[0])) return report_file(arguments, terminal);
  Model model = model_of(arguments, terminal);
  add_train_step(model.graph, model.loss, optimizer_of(arguments));
  report(arguments, model, plan_of(arguments, model, model.graph, terminal), terminal);
  return 0;
}

}  // namespace

std::vector<Verb> estimate() {
  std::vector<Flag> flags = planning_flags({{"--json", "", "one JSON document", ""}});
  for (Flag& f : optimizer_flags()) flags.push_back(std::move(f));
  return {{.name = "estimate",
           .doc = "say what a step takes: of a saved plan, or of a model as it would be planned",
           .positionals = {"PLAN|MODEL"},
           .flags = std::move(flags),
           .example = "shardwright estimate plan.json",
           .run = run}};
}

}  // namespace shardwright::verbs
