#include "shardwright/cli/programs.h"

#include <fmt/format.h>

#include "shardwright/base/progress.h"
#include "shardwright/runtime/backend/backend.h"

namespace shardwright {

CompileOptions compile_options_of(const Arguments& arguments) {
  return {.formats = default_devices().formats, .verifies = arguments.is_on("--verify-passes")};
}

Pipeline compiled(const Arguments& arguments, const Graph& graph, const Plan& plan) {
  const Doing doing(arguments.progress, "making the programs of the plan");
  return compile_pipeline(graph, plan, compile_options_of(arguments));
}

Proof proven(const Arguments& arguments, const Pipeline& pipeline) {
  Doing doing(arguments.progress, fmt::format("proving the step of {} ranks", pipeline.rank_count()));
  return prove(pipeline, [&](std::string_view what) { doing.tell(0, [&] { return std::string(what); }); });
}

}  // namespace shardwright
