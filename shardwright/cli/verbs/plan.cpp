#include <chrono>

#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/planning.h"
#include "shardwright/passes/compile.h"

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  const auto start = std::chrono::steady_clock::now();
  Model model = model_of(arguments, terminal);
  add_train_step(model.graph, model.loss, optimizer_of(arguments));
  Plan plan = plan_of(arguments, model, model.graph, terminal);
  if (!arguments.has("--plan")) {
    completed(model.graph, plan);  // with it every node has its strategy
    plan.search_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  report(arguments, model, plan, terminal);  // refuses what does not fit
  if (arguments.has("-o")) save_plan(plan, arguments.text("-o"));
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
