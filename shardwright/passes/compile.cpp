#include "shardwright/passes/compile.h"

#include <algorithm>
#include <span>

#include "shardwright/base/index.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/lower/cut_products.h"
#include "shardwright/lower/offload.h"
#include "shardwright/lower/recompute.h"
#include "shardwright/lower/sequence_order.h"
#include "shardwright/lower/split_backward.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/passes/share_between_chunks.h"
#include "shardwright/plan/complete.h"
#include "shardwright/plan/owners.h"

namespace shardwright {
PlannedGraph completed(PlannedGraph planned, const Cluster& cluster) {
  Redistributor redistributor = redistributor_for(planned.graph.meshes, cluster);
  complete(planned.graph, redistributor, planned.update_layouts);
  return planned;
}

Program compile(PlannedGraph planned, const Cluster& cluster, const CompileOptions& options) {
  Graph graph = std::move(planned.graph);
  Redistributor redistributor = redistributor_for(graph.meshes, cluster);
  complete(graph, redistributor, planned.update_layouts);
  note_owners(graph);
  const Graph* const alone = &graph;
  const std::int64_t order =
      options.order ? *options.order : sequence_order({&alone, 1}, OutputsOfTokens::read_as_they_lie);
  if (!planned.offload.operators.empty()) graph = with_hosted(std::move(graph), planned.offload);
  const std::vector<RecomputeRegion> regions = regions_of(graph, planned.recompute, planned.has_layers);
  std::vector<bool> is_repeated = repeated_owners(graph, regions);
  if (!regions.empty()) graph = with_recompute(graph, regions, redistributor);
  if (planned.overlap_tensor) graph = with_cut_products(graph);
  Program program = lower(graph, redistributor, order);
  if (planned.micro_batches.splits_backward) program.graph = with_split_backward(std::move(program.graph));
  program.micro_batches = planned.micro_batches.count;
  program.interleave = planned.micro_batches.interleave;
  program.lanes = planned.micro_batches.lanes;
  program.keeps_sends = planned.micro_batches.keeps_sends;
  program.is_repeated = std::move(is_repeated);
  return optimize(
      std::move(program),
      {redistributor, options.formats, planned.comm_fusion, planned.offload, &cluster, options.is_piece},
      {.after = options.after, .verifies = options.verifies});
}

Program compile(PlannedGraph planned, const CompileOptions& options) {
  if (planned.graph.level != Level::planned) throw error("the graph names no mesh");
  const Cluster cluster = host_cluster(planned.graph.meshes[0].size());
  return compile(std::move(planned), cluster, options);
}

namespace {

/// What is handed out of each token stands in `blocks`.
void note_order(Pipeline& pipeline, std::span<const Graph* const> stages, std::int64_t blocks) {
  for (std::size_t o = 0; o < pipeline.outputs.size(); ++o) {
    const Graph& graph = *stages[at(pipeline.outputs[o].stage)];
    const std::vector<bool> dims =
        dims_in_order(graph)[at(graph.outputs[at(pipeline.outputs[o].index)].index)];
    if (const auto dim = std::ranges::find(dims, true); dim != dims.end())
      pipeline.in_order.push_back({static_cast<int>(o), static_cast<int>(dim - dims.begin()), blocks});
  }
}

}  // namespace

Pipeline compile_pipeline(const Graph& graph, const Plan& plan, const CompileOptions& options) {
  PlannedStages planned = apply(plan, graph);
  Pipeline out;
  out.pipelining = plan.settings.pipelining;
  out.outputs = std::move(planned.outputs);
  std::vector<const Graph*> graphs;
  for (const PlannedGraph& stage : planned.stages) graphs.push_back(&stage.graph);
  CompileOptions of_all = options;
  of_all.order = sequence_order(graphs, OutputsOfTokens::brought_into_place);
  if (*of_all.order > 0) note_order(out, graphs, *of_all.order);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) try {
      out.stages.push_back(compile(std::move(planned.stages[s]), plan.cluster_of(s), of_all));
    } catch (const Error& e) {
      if (plan.stages.size() == 1) throw;
      throw with_context(e, fmt::format("stage {}", s));
    }
  for (const Crossing& c : planned.crossings) out.connect(c);
  share_between_chunks(out);
  return out;
}

Program compile(const Graph& graph, const Plan& plan, const CompileOptions& options) {
  if (plan.stages.size() > 1)
    throw error("the plan has {} stages, each of its own program", plan.stages.size());
  return std::move(compile_pipeline(graph, plan, options).stages.front());
}

}  // namespace shardwright
