#include "shardwright/cost/kernel_work.h"

namespace shardwright {

CallWork call_work(const OpDef& op, const Rule& rule) {
  const WorkKind kind = op.optimizer      ? WorkKind::update
                        : op.reads_scores ? WorkKind::loss
                        : op.routed       ? WorkKind::contraction  // products, one after the other
                        : op.is_chain     ? WorkKind::chain
                                          : work_kind(rule);
  CallWork out{.flops = flops_of(op, rule), .kind = kind};
  if (kind == WorkKind::contraction && !op.routed) out.rule = rule, out.is_batched = is_batched(rule);
  if (op.routed) out.experts = rule.loop(op.routed->experts);
  for (const LoopDim& loop : rule.loops) out.sizes.push_back(loop.size);
  return out;
}

double imbalance_of(const Node& node, const CallWork& call, const Cluster& cluster) {
  if (call.experts < 0 || !node.strategy) return 1;
  return node.strategy->loops[static_cast<std::size_t>(call.experts)].empty() ? 1 : cluster.routing_imbalance;
}

std::int64_t row_bytes(const Graph& graph, const Node& node, const CallWork& call) {
  if (call.kind != WorkKind::contraction) return 0;
  const auto element = static_cast<std::int64_t>(size_of(graph.value(node.operands.front()).type.dtype));
  return row_bytes(call.rule, call.kind, element, [&](int loop) {
    const std::int64_t size = call.rule.loops[static_cast<std::size_t>(loop)].size;
    if (!node.strategy) return size;
    const Mesh& mesh = graph.meshes[static_cast<std::size_t>(node.strategy->mesh)];
    return largest_part(node.strategy->loops[static_cast<std::size_t>(loop)], mesh, size);
  });
}

double share_of(const Graph& graph, const Node& node, const CallWork& call) {
  if (!node.strategy) return 1;
  double share = 1;
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(node.strategy->mesh)];
  for (std::size_t l = 0; l < call.sizes.size(); ++l) {
    const Axes& axes = node.strategy->loops[l];
    if (axes.empty()) continue;
    const std::int64_t size = call.sizes[l], parts = mesh.count(axes), most = largest_part(axes, mesh, size);
    if (most * parts == size)
      share /= static_cast<double>(parts);
    else
      share *= static_cast<double>(most) / static_cast<double>(size);
  }
  return share;
}

double bytes_read(const Graph& graph, ValueId v, double flops) {
  const Type& type = graph.value(v).type;
  const auto element = static_cast<double>(size_of(type.dtype));
  const double row = element * static_cast<double>(type.shape.empty() ? 1 : type.shape.back());
  return bytes_read(static_cast<double>(type.bytes()), flops, element, row);
}

Work kernel_work(const Graph& graph, const Node& node, const Rule& rule) {
  const CallWork call = call_work(*node.op, rule);
  const double flops = call.flops * share_of(graph, node, call);
  std::vector<ValueId> moved;
  return {.kind = call.kind,
          .flops = flops,
          .bytes = bytes_moved(graph, node, flops, moved, [](ValueId) { return true; }),
          // Of a chain what is carried on may be wider than what is multiplied.
          .dtype = graph.value(node.op->is_chain ? node.operands.front() : node.results.front()).type.dtype,
          .row_bytes = row_bytes(graph, node, call),
          .is_batched = call.is_batched};
}

}  // namespace shardwright
