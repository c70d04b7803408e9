#include "shardwright/runtime/prepare.h"

#include <fmt/format.h>

#include "shardwright/base/progress.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/host_memory.h"
#include "shardwright/runtime/session.h"

namespace shardwright {
namespace {

Pipeline compiled_for(const Graph& graph, const Plan& plan, const PrepareOptions& options) {
  const Doing doing(options.progress, "making the programs of the plan");
  return compile_pipeline(graph, plan, {.formats = options.device.formats, .verifies = options.verifies});
}

}  // namespace

Proof proven(const Pipeline& pipeline, Progress* progress) {
  Doing doing(progress, fmt::format("proving the step of {} ranks", pipeline.rank_count()));
  return prove(pipeline, [&](std::string_view what) { doing.tell(0, [&] { return std::string(what); }); });
}

Prepared prepare(const Graph& graph, const Plan& plan, const PrepareOptions& options) {
  Pipeline pipeline = compiled_for(graph, plan, options);
  require_host_memory(pipeline);
  if (options.accept) options.accept(pipeline);
  if (options.proves) proven(pipeline, options.progress);
  return {std::move(pipeline), options.device};
}

Prepared prepared_again(const Session& session) { return {session.pipeline(), session.device()}; }

}  // namespace shardwright
