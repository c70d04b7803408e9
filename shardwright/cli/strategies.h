// `--strategy FILE` and `--save-strategy FILE`: what is asked of planning, and what came out, as MindSpore's strategy files
// have it (annotations/strategy_file.h).
#pragma once

#include <optional>
#include <string>

#include "shardwright/cli/verb.h"
#include "shardwright/graph/graph.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

/// Reads the file of --strategy, if there is one, once for a command and all who copy its arguments.
void read_strategies(const Arguments& arguments);

/// What the file fixes, beside what `request` has of --annotate. Pre: there is a file.
/// Throws: Error if a flag excludes it, or says other stages.
void add_strategies(const Arguments& arguments, PlanRequest& request);

/// `said`, with patterns written out, without what the file says of states; that, and what else is not heeded, is told.
/// Throws: Error unless the file is of `network`, for as many devices as `request`, and agrees with --annotate.
Constraints fitting_strategies(const Arguments& arguments, const Graph& network, const PlanRequest& request,
                               Constraints said);

/// `s.ckpt has 4 stages`, where it is the file that says how many, and so how many micro-batches.
std::optional<std::string> stages_of_file(const Arguments& arguments);

Flag save_strategy_flag();

/// Throws: Error if --save-strategy names what cannot be written.
void require_strategies_writable(const Arguments& arguments);

/// Writes that file; what it cannot say is told. `graph` is what `plan` is for, and `pipeline` is compiled of both.
void save_strategies(const Arguments& arguments, const Graph& graph, const Plan& plan,
                     const Pipeline& pipeline, Terminal& terminal);

}  // namespace shardwright
