#include "shardwright/passes/compile.h"

#include "shardwright/cost/cluster.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/plan/complete.h"

namespace shardwright {
namespace {

using Observer = std::function<void(const Pass&, const Program&)>;

Program compile(PlannedGraph planned, const Cluster& cluster, const Observer& after) {
  Graph& graph = planned.graph;
  std::vector<MeshCost> costs;
  for (const Mesh& mesh : graph.meshes) costs.push_back(mesh_cost(cluster, mesh));
  Redistributor redistributor(graph.meshes, costs, {.even_only = true});
  complete(graph, redistributor, planned.update_layouts);
  return optimize(lower(graph, redistributor), {redistributor}, after);
}

}  // namespace

Program compile(const Graph& graph, const Plan& plan, const Observer& after) {
  return compile(apply(plan, graph), cluster_called(plan.cluster), after);
}

Program compile(const PlannedGraph& planned, const Observer& after) {
  if (planned.graph.meshes.empty()) throw error("the graph names no mesh");
  return compile(planned, cluster_called(fmt::format("cpu:{}", planned.graph.meshes[0].size())), after);
}

}  // namespace shardwright
