// The sizes of models by name, as others have them in their configurations: `layers`, `hidden`, `heads`, ...
#pragma once

#include <string>

#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/written_plan.h"

namespace shardwright {

/// Those of the model called `spec`; no family where others have none of its architecture by name, no sizes where it is none
/// of ours.
ModelSizes sizes_of_model(const std::string& spec);

/// What to call the model that `recipe` says, or which `named` names; empty: there is none.
/// Throws: Error that names the key where the two do not agree, or a size is missing.
std::string model_of_recipe(const Recipe& recipe, const std::string& named);

}  // namespace shardwright
