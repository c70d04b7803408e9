#include "shardwright/runtime/prepare.h"

#include <fmt/format.h>

#include <set>

#include "shardwright/base/progress.h"
#include "shardwright/base/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/passes/share_memory.h"
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

std::vector<Prepared> prepare_together(const std::vector<StepToPrepare>& steps,
                                       const PrepareOptions& options) {
  std::vector<Pipeline> pipelines;
  for (const StepToPrepare& step : steps) pipelines.push_back(compiled_for(step.graph, step.plan, options));
  pipelines = sharing_memory(std::move(pipelines));
  require_host_memory(pipelines.front());
  std::vector<Prepared> out;
  for (Pipeline& pipeline : pipelines) {
    if (options.accept) options.accept(pipeline);
    if (options.proves) proven(pipeline, options.progress);
    out.push_back({std::move(pipeline), options.device});
  }
  return out;
}

std::vector<std::string> Prepared::notices() const {
  if (!device_.formats) return {};
  std::set<std::string> without;
  for (const Program& program : pipeline_.stages)
    for (const Node& node : program.graph.nodes) {
      if (node.space != Space::host || node.op->kind != OpKind::compute) continue;
      LocalCall call = local_call(program.graph, node, 0);
      if (!device_.formats(*node.op, call.call()).has_kernel) without.insert(node.op->name);
    }
  if (without.empty()) return {};
  return {fmt::format(
      "this device has no kernel for {}: on the host, and what it takes and makes goes there and back",
      join(std::vector(without.begin(), without.end()), ", "))};
}

Prepared prepared_again(const Session& session) { return {session.pipeline(), session.device()}; }

}  // namespace shardwright
