// What a network is made of besides its model: precision, batch, loss and optimizer. Flags say it, or the plan that
// --plan names: what was proven and estimated for a plan is what runs, so a flag may repeat it but not say otherwise.
#pragma once

#include <string>
#include <vector>

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/model.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// The plan that --plan names, read once for a command: another process may replace the file meanwhile.
/// Throws: Error as load_plan does.
const Plan& saved_plan(const Arguments& arguments);

/// The flags that choose optimizer and loss.
std::vector<Flag> optimizer_flags();

/// What the network of MODEL is made of. Heeds no flag: who uses a part of it does.
/// Throws: Error if a value is none, or a flag says otherwise than the plan.
Origin origin_of(const Arguments& arguments);

/// What `model`, made of `origin_of`, really is made of: a graph as text has its own sizes and types.
/// Throws: Error if a flag says otherwise.
Origin origin_of(const Arguments& arguments, const Model& model);

/// The optimizer of it. Throws: Error on a flag that the optimizer does not have.
OptimizerChoice optimizer_of(const Arguments& arguments, const Model& model);

ModelOptions model_options(const Origin& origin, int micro_batches = 1);

}  // namespace shardwright
