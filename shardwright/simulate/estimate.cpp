#include "shardwright/simulate/estimate.h"

#include <algorithm>

#include "shardwright/passes/compile.h"

namespace shardwright {
namespace {

double compute_seconds(const Graph& graph, const Node& node, const Cluster& cluster) {
  const Rule rule = rule_of(graph, node);
  double share = 1;  // of the loop space that one device computes
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(node.strategy->mesh)];
  for (const Axes& axes : node.strategy->loops) share /= mesh.count(axes);
  std::int64_t bytes = 0;
  for (ValueId v : node.operands) bytes += graph.value(v).type.bytes();
  for (ValueId v : node.results) bytes += graph.value(v).type.bytes();
  return std::max(flops_of(*node.op, rule) * share / cluster.flops_per_second,
                  static_cast<double>(bytes) / cluster.memory_bytes_per_second);
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
  for (const Node& node : graph.nodes) {
    const Value& first = graph.value(node.results.front());
    if (node.op->kind == OpKind::parameter) out.parameter_bytes += first.type.bytes();
    if (node.op->kind == OpKind::state) out.state_bytes += first.type.bytes();
    if (node.op->kind == OpKind::compute) out.compute_seconds += compute_seconds(graph, node, cluster);
    if (node.op->kind != OpKind::step) continue;
    const Step step = step_of(graph, node);
    if (is_local(step.kind)) continue;
    const Redistribution& r = redistributor.find(step.from, step.to, first.global_type());
    out.communication_seconds += r.seconds;
    out.bytes_communicated += r.bytes;
    ++out.collectives[std::string(name_of(step.kind))];
  }
  return out;
}

}  // namespace shardwright
