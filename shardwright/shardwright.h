// Shardwright in one header: the six verbs, each a function from values to a value, and the vocabulary.
//
//   load           build_model("ffn:batch=64")              -> Model (a Graph with its loss)
//   differentiate  add_train_step(graph, loss, optimizer)   -> Graph with backward and update
//   plan           make_plan(graph, {.devices = 8})         -> Plan
//   lower          compile(graph, plan)                     -> Program (lowered, then optimized)
//   run            Session(program).step(batch)             -> losses
//   simulate       estimate(program, cluster)               -> seconds and bytes
//   take along     emit(graph, plan, "jax", {}).save("dir") -> the program in PyTorch or JAX
//                  export_plan(graph, plan, "megatron").text -> the plan as others are configured; import_plan, advise: back
//
// From C++ code of one's own, TrainStep (frontend/train_step.h) takes all of them at once.
#pragma once

#include "shardwright/autodiff/train_step.h"       // IWYU pragma: export
#include "shardwright/frontend/advice.h"           // IWYU pragma: export
#include "shardwright/frontend/emit.h"             // IWYU pragma: export
#include "shardwright/frontend/export_plan.h"      // IWYU pragma: export
#include "shardwright/frontend/fit.h"              // IWYU pragma: export
#include "shardwright/frontend/generate.h"         // IWYU pragma: export
#include "shardwright/frontend/import_plan.h"      // IWYU pragma: export
#include "shardwright/frontend/model.h"            // IWYU pragma: export
#include "shardwright/frontend/modules.h"          // IWYU pragma: export
#include "shardwright/frontend/predict.h"          // IWYU pragma: export
#include "shardwright/frontend/recompute.h"        // IWYU pragma: export
#include "shardwright/frontend/shard.h"            // IWYU pragma: export
#include "shardwright/frontend/train_step.h"       // IWYU pragma: export
#include "shardwright/passes/compile.h"            // IWYU pragma: export
#include "shardwright/plan/plan.h"                 // IWYU pragma: export
#include "shardwright/runtime/checkpoint/load.h"   // IWYU pragma: export
#include "shardwright/runtime/checkpoint/saver.h"  // IWYU pragma: export
#include "shardwright/runtime/data/dataset.h"      // IWYU pragma: export
#include "shardwright/runtime/event_file.h"        // IWYU pragma: export
#include "shardwright/runtime/rate_schedule.h"     // IWYU pragma: export
#include "shardwright/runtime/session.h"           // IWYU pragma: export
#include "shardwright/simulate/estimate.h"         // IWYU pragma: export
#include "shardwright/verify/verify.h"             // IWYU pragma: export
