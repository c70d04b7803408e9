// What `plan` and `estimate` print: the plan and what a step of it takes, as a table or as one JSON document.
#pragma once

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/model.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// `model` has its train step. With `--json` the document, else the table.
/// Throws: Infeasible if the plan takes more memory than the flags allow.
Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, Terminal& terminal);

}  // namespace shardwright
