#include "shardwright/base/error.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/planning.h"

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  require_page_writable(arguments);
  const PlannedModel made = planned_positional(arguments,
                                               {"--json", "--html", "--memory-cap", "--device-memory",
                                                "--memory-margin", "--routing-imbalance", "--verify-passes"},
                                               terminal);
  report(arguments, made.model, made.plan, terminal);
  return 0;
}

}  // namespace

std::vector<Verb> estimate() {
  return {{.name = "estimate",
           .doc = "say what a step takes: of a saved plan, or of a model as it would be planned",
           .positionals = {"PLAN|MODEL"},
           .flags = planning_flags({html_flag(), wide_flag(), {"--json", "", "one JSON document", ""}}),
           .example = "shardwright estimate llama2-7b --cluster a100-80g --set dp=2,tp=4",
           .run = run}};
}

}  // namespace shardwright::verbs
