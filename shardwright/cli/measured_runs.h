// Steps that were run and measured somewhere, as a table says them (`calibrate --from runs.csv`): a cluster is fitted to
// what they took, and it is told how sure that is, what it does not explain, and what run would tell most next.
//
// One row a run: `model`, `plan` (words of --set, or a saved plan), `seconds` of a step, `bytes` of a device (either may be
// empty); any further column is the flag of `estimate` of that name (precision, optimizer, framework, attention, ...).
#pragma once

#include "shardwright/cli/verb.h"

namespace shardwright {

/// Fits --cluster to the runs of --from and writes --out. Throws: Error that names the line of a row that is no run.
int correct_by_runs(const Arguments& arguments, Terminal& terminal);

}  // namespace shardwright
