// A plan from a file that somebody else's training is configured by.
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/cli/recipes.h"
#include "shardwright/frontend/memory_limit.h"

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  const std::string path = arguments.text("-o");
  if (path.empty()) throw error("-o FILE says where the plan goes");
  require_writable(path);
  const ImportedPlan found = shardwright::import_plan(arguments.positionals[0], import_options_of(arguments));
  const Plan& plan = found.made.plan;
  tell(found.notices, terminal);
  for (const std::string& line : found.not_heeded)
    terminal.err << fmt::format("{}: {}\n", arguments.positionals[0], line);
  save_plan(plan, path);
  terminal.out << fmt::format("{}: {} on {}: {}\n", path, plan.model, plan.cluster.name, recipe_text(plan));
  terminal.err << memory_notices(found.evaluation, plan);
  return 0;
}

}  // namespace

std::vector<Verb> import_plan() {
  return {{.name = "import",
           .doc = "make a plan of a file that others train by",
           .positionals = {"FILE"},
           .flags = recipe_flags({{"-o", "FILE", "the plan", ""}}),
           .example =
               "shardwright import examples/recipes/megatron_gpt3_175b.args --cluster h100:16x8 -o plan.json",
           .run = run}};
}

}  // namespace shardwright::verbs
