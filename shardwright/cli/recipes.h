// Files of what others train with as command lines of ours: what such a file says becomes flags, named by its keys, and
// goes the way of all flags.
#pragma once

#include <string>

#include "shardwright/cli/verb.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/frontend/planned_model.h"

namespace shardwright {

/// `--from`, `--model` and `--cluster`.
std::vector<Flag> recipe_flags(std::vector<Flag> more);

struct AskedRecipe {
  std::string path;
  std::string format;
  Recipe recipe;
  std::string model;  // empty: the recipe is a plan
};
/// The file that the first positional names, for the cluster of --cluster, as --from or the file itself says it is.
/// Throws: Error if it cannot be read, says what cannot be, or no model.
AskedRecipe recipe_asked(const Arguments& arguments);

/// As if somebody had said it by flags: MODEL and the recipe's settings. Pre: it is no plan.
Arguments as_flags(const Arguments& arguments, const AskedRecipe& asked);
/// The same without what says how it is split and in which order it runs: for a search.
Arguments as_open_flags(const Arguments& arguments, const AskedRecipe& asked);

/// The plan that it is; `by` as as_flags gives them. What it tells goes to `err`.
PlannedModel planned_recipe(const Arguments& by, const AskedRecipe& asked, Terminal& terminal);

/// What such a plan fixes, `dp=2,tp=4,pp=1,micro_batches=2`: its operators follow from that.
std::string recipe_text(const Plan& plan);

/// What of the file has no effect here, a line each.
std::string not_heeded_text(const AskedRecipe& asked);

}  // namespace shardwright
