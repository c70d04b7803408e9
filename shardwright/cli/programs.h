// The programs of a plan, made and proven; both tell how far they are, as large plans take a while.
#pragma once

#include "shardwright/cli/verb.h"
#include "shardwright/graph/graph.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/plan.h"
#include "shardwright/runtime/prepare.h"

namespace shardwright {

/// What runs programs. The one place at which the command decides that.
DeviceKind device_of(const Arguments& arguments);
/// For a program that will run.
PrepareOptions prepare_options_of(const Arguments& arguments);

/// For the devices that are here; our own output is verified where that is asked for.
CompileOptions compile_options_of(const Arguments& arguments);

/// Throws: as compile_pipeline does.
Pipeline compiled(const Arguments& arguments, const Graph& graph, const Plan& plan);

/// The same in no device's memory formats, as engines that are not ours run it.
Pipeline compiled_for_others(const Arguments& arguments, const Graph& graph, const Plan& plan);

/// Throws: as prove does.
Proof proven(const Arguments& arguments, const Pipeline& pipeline);

}  // namespace shardwright
