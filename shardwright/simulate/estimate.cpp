#include "shardwright/simulate/estimate.h"

#include <algorithm>
#include <set>

#include "shardwright/passes/compile.h"

namespace shardwright {
namespace {

/// One device's share of the loop space of `node`.
double share_of(const Graph& graph, const Node& node) {
  double share = 1;
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(node.strategy->mesh)];
  for (const Axes& axes : node.strategy->loops) share /= mesh.count(axes);
  return share;
}

/// Nodes that run together move each value between cache and memory once, and those only they use never.
double compute_seconds(const Program& program, const Fusion& fusion, const Cluster& cluster) {
  const Graph& graph = program.graph;
  double seconds = 0;
  std::set<ValueId> moved;
  for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1}) {
    const Node& node = graph.node(id);
    seconds += flops_of(*node.op, rule_of(graph, node)) * share_of(graph, node) /
               cluster.flops_per_second.of(graph.value(node.results.front()).type.dtype);
    for (const auto& values : {node.operands, node.results}) moved.insert(values.begin(), values.end());
  }
  std::int64_t bytes = 0;
  for (ValueId v : moved)
    if (program.offsets[static_cast<std::size_t>(v.index)] != no_place) bytes += graph.value(v).type.bytes();
  return cluster.kernel_seconds +
         std::max(seconds, static_cast<double>(bytes) / cluster.memory_bytes_per_second);
}

}  // namespace

double step_seconds(const PlannedGraph& planned, const Cluster& cluster) {
  return estimate(compile(planned, cluster), cluster).step_seconds();
}

Estimate estimate(const Program& program, const Cluster& cluster) {
  const Graph& graph = program.graph;
  std::vector<MeshCost> costs;
  for (const Mesh& mesh : graph.meshes) costs.push_back(mesh_cost(cluster, mesh));
  Redistributor redistributor(graph.meshes, costs, {.even_only = true});

  Estimate out{.arena_bytes = program.arena_bytes};
  for (const Fusion& fusion : fusions_of(graph)) {
    const Node& node = graph.node(fusion.begin);
    const Value& first = graph.value(node.results.front());
    if (node.op->kind == OpKind::parameter) out.parameter_bytes += first.type.bytes();
    if (node.op->kind == OpKind::state) out.state_bytes += first.type.bytes();
    if (node.op->kind == OpKind::compute) out.compute_seconds += compute_seconds(program, fusion, cluster);
    if (node.op->kind != OpKind::step || is_local(*node.op->step)) continue;
    for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1}) {
      const Step step = step_of(graph, graph.node(id));
      const Redistribution& r = redistribution_of(graph, graph.node(id), redistributor);
      out.communication_seconds += r.seconds;
      if (id != fusion.begin) out.communication_seconds -= redistributor.latency(step);  // they start as one
      out.bytes_communicated += r.bytes;
      ++out.collectives[std::string(name_of(step.kind))];
    }
  }
  return out;
}

}  // namespace shardwright
