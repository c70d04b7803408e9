#include "shardwright/passes/compile.h"

#include "shardwright/cost/cluster.h"
#include "shardwright/lower/recompute.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/plan/complete.h"

namespace shardwright {
namespace {

Redistributor redistributor_for(const Graph& graph, const Cluster& cluster) {
  std::vector<MeshCost> costs;
  for (const Mesh& mesh : graph.meshes) costs.push_back(mesh_cost(cluster, mesh));
  return Redistributor(graph.meshes, costs, {.even_only = true});
}

}  // namespace

PlannedGraph completed(const Graph& graph, const Plan& plan) {
  PlannedGraph out = apply(plan, graph);
  Redistributor redistributor = redistributor_for(out.graph, cluster_called(plan.cluster));
  complete(out.graph, redistributor, out.update_layouts);
  return out;
}

Program compile(const PlannedGraph& planned, const Cluster& cluster, const CompileOptions& options) {
  Graph graph = planned.graph;
  Redistributor redistributor = redistributor_for(graph, cluster);
  complete(graph, redistributor, planned.update_layouts);
  graph = with_recompute(graph, planned.recompute, redistributor);
  return optimize(lower(graph, redistributor), {redistributor, options.formats, planned.comm_fusion},
                  options.after);
}

Program compile(const Graph& graph, const Plan& plan, const CompileOptions& options) {
  return compile(apply(plan, graph), cluster_called(plan.cluster), options);
}

Program compile(const PlannedGraph& planned, const CompileOptions& options) {
  if (planned.graph.meshes.empty()) throw error("the graph names no mesh");
  return compile(planned, cluster_called(fmt::format("cpu:{}", planned.graph.meshes[0].size())), options);
}

}  // namespace shardwright
