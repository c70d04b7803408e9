// What a recipe of somebody else takes on a cluster, whether it fits, what binds it, and what a search would change.
#include "shardwright/frontend/advice.h"

#include <ostream>

#include "shardwright/cli/recipes.h"

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  const Advice advice = shardwright::advise(arguments.positionals[0], import_options_of(arguments));
  tell(advice.recipe.notices, terminal);
  if (advice.better) tell(advice.better->notices, terminal);
  if (arguments.is_on("--json"))
    terminal.out << to_json(advice).dump() << "\n";
  else
    terminal.out << to_text(advice);
  return 0;
}

}  // namespace

std::vector<Verb> advise() {
  return {{.name = "advise",
           .doc = "say what somebody's recipe takes on a cluster, and what would be better",
           .positionals = {"FILE"},
           .flags = recipe_flags({{"--json", "", "one JSON document", ""}}),
           .example =
               "shardwright advise examples/recipes/deepspeed_zero3.json --model llama2-7b --cluster h100:8",
           .run = run}};
}

}  // namespace shardwright::verbs
