#include "shardwright/cli/programs.h"

#include "shardwright/base/progress.h"

namespace shardwright {

DeviceKind device_of(const Arguments&) { return default_devices(); }

PrepareOptions prepare_options_of(const Arguments& arguments) {
  return {.device = device_of(arguments),
          .verifies = arguments.is_on("--verify-passes"),
          .progress = arguments.progress};
}

CompileOptions compile_options_of(const Arguments& arguments) {
  return {.formats = device_of(arguments).formats, .verifies = arguments.is_on("--verify-passes")};
}

Pipeline compiled(const Arguments& arguments, const Graph& graph, const Plan& plan) {
  const Doing doing(arguments.progress, "making the programs of the plan");
  return compile_pipeline(graph, plan, compile_options_of(arguments));
}

Pipeline compiled_for_others(const Arguments& arguments, const Graph& graph, const Plan& plan) {
  const Doing doing(arguments.progress, "making the programs of the plan");
  return compile_pipeline(graph, plan, {.verifies = arguments.is_on("--verify-passes")});
}

Proof proven(const Arguments& arguments, const Pipeline& pipeline) {
  return proven(pipeline, arguments.progress);
}

}  // namespace shardwright
