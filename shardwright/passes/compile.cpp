#include "shardwright/passes/compile.h"

#include "shardwright/cost/cluster.h"
#include "shardwright/lower/recompute.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/plan/complete.h"
#include "shardwright/plan/owners.h"

namespace shardwright {
namespace {

Program compiled(PlannedGraph planned, const Cluster& cluster, const CompileOptions& options) {
  Graph graph = std::move(planned.graph);
  Redistributor redistributor = redistributor_for(graph.meshes, cluster);
  complete(graph, redistributor, planned.update_layouts);
  note_owners(graph);
  if (planned.recompute.is_on()) graph = with_recompute(graph, planned.recompute, redistributor);
  Program program = lower(graph, redistributor);
  program.micro_batches = planned.micro_batches.count;
  program.slots = planned.micro_batches.slots;
  program.keeps_sends = planned.micro_batches.keeps_sends;
  return optimize(std::move(program), {redistributor, options.formats, planned.comm_fusion},
                  {.after = options.after, .verifies = options.verifies});
}

}  // namespace

PlannedGraph completed(const Graph& graph, const Plan& plan) {
  PlannedGraph out = apply(plan, graph);
  Redistributor redistributor = redistributor_for(out.graph.meshes, plan.cluster);
  complete(out.graph, redistributor, out.update_layouts);
  return out;
}

Program compile(const PlannedGraph& planned, const Cluster& cluster, const CompileOptions& options) {
  return compiled(planned, cluster, options);
}

Pipeline compile_pipeline(const Graph& graph, const Plan& plan, const CompileOptions& options) {
  StagedGraph parts = staged(graph, plan);
  Pipeline out;
  out.pipelining = plan.settings.pipelining;
  out.outputs = std::move(parts.outputs);
  for (int s = 0; s < static_cast<int>(parts.stages.size()); ++s) {
    const Plan& of_stage = plan.stages.empty() ? plan : plan.stages[static_cast<std::size_t>(s)];
    try {
      PlannedGraph planned = apply(of_stage, std::move(parts.stages[static_cast<std::size_t>(s)]));
      planned.micro_batches = micro_batches_of(plan.settings.pipelining, s);
      out.stages.push_back(compiled(std::move(planned), of_stage.cluster, options));
    } catch (const Error& e) {
      if (plan.stages.empty()) throw;
      throw with_context(e, fmt::format("stage {}", s));
    }
  }
  for (const Crossing& c : parts.crossings) out.connect(c);
  return out;
}

Program compile(const Graph& graph, const Plan& plan, const CompileOptions& options) {
  return compiled(apply(plan, graph), plan.cluster, options);
}

Program compile(const PlannedGraph& planned, const CompileOptions& options) {
  if (planned.graph.level != Level::planned) throw error("the graph names no mesh");
  return compile(planned, host_cluster(planned.graph.meshes[0].size()), options);
}

}  // namespace shardwright
