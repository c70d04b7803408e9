// Files that others train by, planned here: what such a file says (exchange/plan_format.h) goes the way of all settings, named
// by the file's keys.
//
//   import_plan("recipe.yaml", {.cluster = "h100:8"})       -> the plan that it is, and what that takes
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/exchange/plan_format.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
class Progress;

struct ImportOptions {
  std::string cluster;           // the machine, as --cluster
  std::string from = {};         // its format; empty: as the file looks
  std::string model = {};        // the network, where the file does not say it, or says its sizes only
  FormatsOf formats = {};        // of what would run it: memory formats take room, too
  Progress* progress = nullptr;  // that long work tells how far it is
};

struct ImportedPlan {
  PlannedModel made;
  Evaluation evaluation;  // by the memory of the framework that it is of
  std::string format;
  std::vector<std::string> not_heeded;  // what of the file has no effect here, a line each
  std::vector<std::string> notices;     // of planning, likewise
};

/// The plan that the file at `path` is. Throws: Error that begins with the path if it cannot be read, names no model, or says
/// what cannot be; Infeasible if there is no such plan.
ImportedPlan import_plan(const std::string& path, const ImportOptions& options);

/// What is read of such a file, before it is planned.
struct ReadRecipe {
  std::string path, format;
  Recipe recipe;
  std::string model;  // empty: the recipe is a plan
  Cluster cluster;
};
ReadRecipe read_recipe(const std::string& path, const ImportOptions& options);

/// Which of a recipe's settings are kept: all, or, for a search, those that say nothing of how it is split and in which order
/// it runs.
enum class RecipePart : std::uint8_t { all, open };
struct RecipeRequest {
  PlanRequest request;
  std::vector<std::string> notices;
};
/// Pre: the recipe is no plan.
RecipeRequest request_of(const ReadRecipe& recipe, RecipePart part, const ImportOptions& options);

/// What is asked for, planned and priced.
ImportedPlan planned(const ReadRecipe& recipe, RecipeRequest asked, const ImportOptions& options);

/// What such a plan fixes, `dp=2,tp=4,pp=1,micro_batches=2`: its operators follow from that.
std::string recipe_text(const Plan& plan);

}  // namespace shardwright
