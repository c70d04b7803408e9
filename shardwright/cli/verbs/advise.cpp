// What a recipe of somebody else takes on a cluster, whether it fits, what binds it, and what a search would change.
#include <optional>
#include <ostream>

#include "shardwright/base/attempt.h"
#include "shardwright/base/quantity.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/recipes.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/plan_diff.h"
#include "shardwright/frontend/plan_document.h"
#include "shardwright/frontend/step_comparison.h"
#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/planning/suggestion.h"

namespace shardwright::verbs {
namespace {

struct Side {
  PlannedModel made;
  Evaluation evaluation;

  const Estimate& estimate() const { return evaluation.estimate; }
};

Side side_of(const Arguments& by, PlannedModel made) {
  const Pipeline pipeline = compiled(by, made.model.graph, made.plan);
  Evaluation evaluation = evaluate(pipeline, made.plan.cluster, {.framework = made.plan.settings.framework});
  return {std::move(made), std::move(evaluation)};
}

/// What a search finds for the same network and batch on the same cluster; nothing if that is no better.
std::optional<Side> better_than(const Side& recipe, const Arguments& open, Terminal& terminal) {
  std::string why;  // nothing fits
  const std::optional<PlannedModel> found =
      attempt(why, [&] { return planned_positional(open, {}, terminal); });
  if (!found) return std::nullopt;
  Side out = side_of(open, *found);
  const bool is_faster = out.estimate().step_seconds() < as_long * recipe.estimate().step_seconds();
  if (!is_better(out.evaluation, recipe.evaluation)) return std::nullopt;
  return is_faster || !recipe.evaluation.fits() ? std::optional(std::move(out)) : std::nullopt;
}

struct Advice {
  Side recipe;
  Remedies remedies;
  std::optional<Side> better;
  Limit binding = Limit::time;
};

Limit limit_of(const Advice& advice) {
  if (!advice.recipe.evaluation.fits()) return Limit::memory;
  return advice.better ? Limit::fixed : Limit::time;
}

void print_json(const AskedRecipe& asked, const Advice& advice, Terminal& terminal) {
  const Side& recipe = advice.recipe;
  Json out{{"recipe", asked.path},
           {"from", asked.format},
           {"model", recipe.made.plan.model},
           {"plan", recipe_text(recipe.made.plan)},
           {"fits", recipe.evaluation.fits()},
           {"step_seconds", recipe.estimate().step_seconds()},
           {"memory_bytes", memory_json(recipe.estimate())},
           {"binding", name_of(advice.binding)},
           {"remedies", Json::array()},
           {"better", nullptr},
           {"differences", Json::array()},
           {"not_heeded", asked.recipe.not_heeded}};
  if (!recipe.evaluation.fits()) out["excess_bytes"] = recipe.evaluation.excess_bytes();
  for (const Remedy& r : advice.remedies.found)
    out["remedies"].push_back(
        {{"change", r.change}, {"step_seconds", r.step_seconds}, {"memory_bytes", r.memory_bytes}});
  if (advice.better) {
    out["better"] = {{"plan", structure_text(advice.better->made.plan)},
                     {"step_seconds", advice.better->estimate().step_seconds()},
                     {"memory_bytes", memory_json(advice.better->estimate())},
                     {"fits", advice.better->evaluation.fits()}};
    for (const PlanDifference& d : differences(recipe.made.plan, advice.better->made.plan))
      out["differences"].push_back({{"what", d.what}, {"a", d.a}, {"b", d.b}});
  }
  terminal.out << out.dump() << "\n";
}

std::string binding_line(const Advice& advice) {
  switch (advice.binding) {
    case Limit::memory: return "memory: it does not fit";
    case Limit::fixed: return "what it fixes: the same network, batch and cluster go faster";
    case Limit::time: break;
  }
  return "time: a search finds nothing that is faster and fits";
}

std::string fit_line(const Side& recipe) {
  const Evaluation& e = recipe.evaluation;
  return fmt::format("{} of {} on the fullest device{}", bytes_text(e.estimate.arena_bytes),
                     bytes_text(e.cap_bytes),
                     e.fits() ? "" : fmt::format(", {} too much", bytes_text(e.excess_bytes())));
}

std::string step_line(const Estimate& e) {
  return fmt::format("{}: compute {}, exposed communication {}, bubble {}; MFU {:.1f}%",
                     seconds_text(e.step_seconds()), seconds_text(e.compute_seconds),
                     seconds_text(e.exposed_communication_seconds), seconds_text(e.bubble_seconds),
                     100 * e.mfu());
}

void print_page(const AskedRecipe& asked, const Advice& advice, Terminal& terminal) {
  constexpr std::size_t most_rows = 8;
  const Side& recipe = advice.recipe;
  const Plan& plan = recipe.made.plan;
  terminal.out << fmt::format(
      "{} ({}): {} on {}\n\nplan      {}\nfits      {}, by the memory of {}: {}\n"
      "step      {}\nbinding   {}\n",
      asked.path, asked.format, plan.model, plan.cluster.name, recipe_text(plan),
      recipe.evaluation.fits() ? "yes" : "no", plan.settings.framework, fit_line(recipe),
      step_line(recipe.estimate()), binding_line(advice));
  for (const Remedy& r : advice.remedies.found) terminal.out << fmt::format("remedy    {}\n", text_of(r));
  if (!recipe.evaluation.fits() && advice.remedies.found.empty())
    terminal.out << "remedy    none was found\n";
  for (const std::string& line : asked.recipe.not_heeded) terminal.out << fmt::format("not read  {}\n", line);
  if (!advice.better) return;
  const Side& better = *advice.better;
  terminal.out << fmt::format("better    {}: {}, {}\n\n", structure_text(better.made.plan),
                              seconds_text(better.estimate().step_seconds()),
                              bytes_text(better.estimate().arena_bytes))
               << to_text(differences(plan, better.made.plan), "recipe", "better", most_rows) << "\n"
               << comparison_table(recipe.estimate(), "recipe", better.estimate(), "better");
}

int run(const Arguments& arguments, Terminal& terminal) {
  const AskedRecipe asked = recipe_asked(arguments);
  if (asked.recipe.plan) throw error("{}: is a plan already; estimate, explain and diff take it", asked.path);
  const Arguments by = as_flags(arguments, asked);
  Advice advice{.recipe = side_of(by, planned_recipe(by, asked, terminal))};
  const Side& recipe = advice.recipe;
  if (!recipe.evaluation.fits())
    advice.remedies = remedies_of(by, recipe.made.model, recipe.made.plan, recipe.evaluation);
  advice.better = better_than(recipe, as_open_flags(arguments, asked), terminal);
  advice.binding = limit_of(advice);
  if (arguments.is_on("--json"))
    print_json(asked, advice, terminal);
  else
    print_page(asked, advice, terminal);
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
