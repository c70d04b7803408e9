#include "shardwright/frontend/advice.h"

#include <fmt/format.h>

#include "shardwright/base/attempt.h"
#include "shardwright/base/quantity.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/plan_diff.h"
#include "shardwright/frontend/plan_document.h"
#include "shardwright/frontend/step_comparison.h"
#include "shardwright/search/planning/suggestion.h"

namespace shardwright {
namespace {

/// What a search finds for the same network and batch on the same cluster; nothing if that is no better.
std::optional<ImportedPlan> better_than(const ImportedPlan& found, const ReadRecipe& recipe,
                                        const ImportOptions& options) {
  std::string why;  // nothing fits
  std::optional<ImportedPlan> out =
      attempt(why, [&] { return planned(recipe, request_of(recipe, RecipePart::open, options), options); });
  if (!out || !is_better(out->evaluation, found.evaluation)) return std::nullopt;
  const double seconds = found.evaluation.estimate.step_seconds();
  const bool is_faster = out->evaluation.estimate.step_seconds() < as_long * seconds;
  return is_faster || !found.evaluation.fits() ? std::move(out) : std::nullopt;
}

Remedies remedies_of(const ImportedPlan& recipe, const PlanRequest& request) {
  const StepsOf steps = [&](const Origin& origin) {
    return step_of(recipe.made.model.name, origin, true, "");
  };
  return remedies_for({request, recipe.made.plan, recipe.evaluation}, steps(request.origin), steps);
}

Limit limit_of(const Advice& advice) {
  if (!advice.recipe.evaluation.fits()) return Limit::memory;
  return advice.better ? Limit::fixed : Limit::time;
}

std::string binding_line(const Advice& advice) {
  switch (advice.binding) {
    case Limit::memory: return "memory: it does not fit";
    case Limit::fixed: return "what it fixes: the same network, batch and cluster go faster";
    case Limit::time: break;
  }
  return "time: a search finds nothing that is faster and fits";
}

std::string fit_line(const ImportedPlan& recipe) {
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

}  // namespace

Advice advise(const std::string& path, const ImportOptions& options) {
  const ReadRecipe recipe = read_recipe(path, options);
  if (recipe.recipe.plan) throw error("{}: is a plan already; estimate, explain and diff take it", path);
  const RecipeRequest asked = request_of(recipe, RecipePart::all, options);
  Advice out{.path = path, .recipe = planned(recipe, asked, options)};
  if (!out.recipe.evaluation.fits()) out.remedies = remedies_of(out.recipe, asked.request);
  out.better = better_than(out.recipe, recipe, options);
  out.binding = limit_of(out);
  return out;
}

std::string to_text(const Advice& advice) {
  constexpr std::size_t most_rows = 8;
  const ImportedPlan& recipe = advice.recipe;
  const Evaluation& evaluation = recipe.evaluation;
  const Plan& plan = recipe.made.plan;
  std::string out = fmt::format(
      "{} ({}): {} on {}\n\nplan      {}\nfits      {}, by the memory of {}: {}\n"
      "step      {}\nbinding   {}\n",
      advice.path, recipe.format, plan.model, plan.cluster.name, recipe_text(plan),
      evaluation.fits() ? "yes" : "no", plan.settings.framework, fit_line(recipe),
      step_line(evaluation.estimate), binding_line(advice));
  for (const Remedy& r : advice.remedies.found) out += fmt::format("remedy    {}\n", text_of(r));
  if (!evaluation.fits() && advice.remedies.found.empty()) out += "remedy    none was found\n";
  for (const std::string& line : recipe.not_heeded) out += fmt::format("not read  {}\n", line);
  if (!advice.better) return out;
  const ImportedPlan& better = *advice.better;
  out += fmt::format("better    {}: {}, {}\n\n", structure_text(better.made.plan),
                     seconds_text(better.evaluation.estimate.step_seconds()),
                     bytes_text(better.evaluation.estimate.arena_bytes));
  return out + to_text(differences(plan, better.made.plan), "recipe", "better", most_rows) + "\n" +
         comparison_table(evaluation.estimate, "recipe", better.evaluation.estimate, "better");
}

Json to_json(const Advice& advice) {
  const ImportedPlan& recipe = advice.recipe;
  const Estimate& estimate = recipe.evaluation.estimate;
  Json out{{"recipe", advice.path},
           {"from", recipe.format},
           {"model", recipe.made.plan.model},
           {"plan", recipe_text(recipe.made.plan)},
           {"fits", recipe.evaluation.fits()},
           {"step_seconds", estimate.step_seconds()},
           {"memory_bytes", memory_json(estimate)},
           {"binding", name_of(advice.binding)},
           {"remedies", Json::array()},
           {"better", nullptr},
           {"differences", Json::array()},
           {"not_heeded", recipe.not_heeded}};
  if (!recipe.evaluation.fits()) out["excess_bytes"] = recipe.evaluation.excess_bytes();
  for (const Remedy& r : advice.remedies.found)
    out["remedies"].push_back(
        {{"change", r.change}, {"step_seconds", r.step_seconds}, {"memory_bytes", r.memory_bytes}});
  if (advice.better) {
    out["better"] = {{"plan", structure_text(advice.better->made.plan)},
                     {"step_seconds", advice.better->evaluation.estimate.step_seconds()},
                     {"memory_bytes", memory_json(advice.better->evaluation.estimate)},
                     {"fits", advice.better->evaluation.fits()}};
    for (const PlanDifference& d : differences(recipe.made.plan, advice.better->made.plan))
      out["differences"].push_back({{"what", d.what}, {"a", d.a}, {"b", d.b}});
  }
  return out;
}

}  // namespace shardwright
