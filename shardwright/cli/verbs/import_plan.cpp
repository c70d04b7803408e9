// A plan from a file that somebody else's training is configured by.
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/recipes.h"
#include "shardwright/frontend/memory_limit.h"

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  const std::string path = arguments.text("-o");
  if (path.empty()) throw error("-o FILE says where the plan goes");
  require_writable(path);
  const AskedRecipe asked = recipe_asked(arguments);
  const Arguments by = asked.recipe.plan ? Arguments() : as_flags(arguments, asked);
  const PlannedModel made = planned_recipe(by, asked, terminal);
  const Pipeline pipeline = compiled(by, made.model.graph, made.plan);
  const Evaluation evaluation =
      evaluate(pipeline, made.plan.cluster, {.framework = made.plan.settings.framework});
  terminal.err << not_heeded_text(asked);
  save_plan(made.plan, path);
  terminal.out << fmt::format("{}: {} on {}: {}\n", path, made.plan.model, made.plan.cluster.name,
                              recipe_text(made.plan));
  terminal.err << memory_notices(evaluation, made.plan);
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
