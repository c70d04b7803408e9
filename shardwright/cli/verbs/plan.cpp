#include <chrono>
#include <ostream>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/file.h"
#include "shardwright/cli/device_counts.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/strategies.h"
#include "shardwright/search/automatic/stock.h"

namespace shardwright::verbs {
namespace {

/// A new plan. Its time counts from the model's parameters to the strategy of every node: forward, backward and update.
struct Searched {
  Plan plan;
  std::vector<Tried> tried;  // what the search looked at
};
Searched searched(const Arguments& arguments, Model& model, Terminal& terminal) {
  const auto start = std::chrono::steady_clock::now();
  automatic::Stock stock;
  model = chooses_devices(arguments) ? model_on_best_count(arguments, terminal, stock.tried)
                                     : model_to_plan(arguments, true, terminal, &stock);
  add_train_step(model.graph, model.loss, optimizer_of(arguments, model));
  const std::chrono::duration<double> building = std::chrono::steady_clock::now() - start;
  Plan plan = planned_of(arguments, model, terminal, &stock).plan;
  plan.search_seconds = building.count() + (arguments.found ? 0 : plan.search_seconds);
  return {std::move(plan), std::move(stock.tried)};
}

int run(const Arguments& arguments, Terminal& terminal) {
  if (draws_curve(arguments)) return report_curve(arguments, terminal);
  const std::string path = arguments.text("-o");
  if (!path.empty()) require_writable(path);  // before a long search
  require_page_writable(arguments);
  require_strategies_writable(arguments);
  Model model;
  Plan plan;
  BoundOf bound;
  if (arguments.has("--plan")) {
    model = model_to_plan(arguments, true, terminal);
    add_train_step(model.graph, model.loss, optimizer_of(arguments, model));
    plan = plan_of(arguments, model, model.graph, terminal);
  } else {
    Searched found = searched(arguments, model, terminal);
    plan = std::move(found.plan);
    bound = [&, tried = std::move(found.tried)](const Evaluation& e) {
      return bound_of(arguments, model, plan, e, tried);
    };
  }
  const Pipeline pipeline = compiled(arguments, model.graph, plan);
  report(arguments, model, plan, pipeline, terminal, bound, [&] {  // what does not fit is refused before
    terminal.out << std::flush;  // in front of the plan, where that goes to /dev/stdout
    if (!path.empty()) save_plan(plan, path);
    save_strategies(arguments, model.graph, plan, pipeline, terminal);
  });
  return 0;
}

}  // namespace

std::vector<Verb> plan() {
  return {{.name = "plan",
           .doc = "find how to split every operator, and say why",
           .positionals = {"MODEL"},
           .flags =
               planning_flags({{"--objective", "WHAT",
                                "time: the fastest plan (default); devices: the fewest that fit; price: so "
                                "many that a step costs least",
                                ""},
                               {"--target-step", "SECONDS",
                                "the longest that a step may take, of objectives devices and price", ""},
                               {"--over", "N,N,...",
                                "tell what a step takes on each number of devices; or choose from these", ""},
                               {"-o", "FILE", "save the plan", ""},
                               save_strategy_flag(),
                               html_flag(),
                               wide_flag(),
                               {"--json", "", "one JSON document", ""}}),
           .example = "shardwright plan ffn --devices 8 -o plan.json",
           .run = run}};
}

}  // namespace shardwright::verbs
