#include "shardwright/cost/kernel_work.h"

#include "shardwright/graph/calls.h"

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

namespace {

/// Of the dim of `size`, on those of `ranks` that have most.
std::int64_t largest_on(const Axes& axes, const Mesh& mesh, std::int64_t size, RanksOf ranks) {
  return ranks.count == 0 ? largest_part(axes, mesh, size)
                          : largest_part(axes, mesh, size, ranks.first, ranks.count);
}

}  // namespace

double part_of_largest(const Graph& graph, ValueId v, RanksOf ranks) {
  const Value& value = graph.value(v);
  if (ranks.count == 0 || !value.layout) return 1;
  double out = 1;
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(value.layout->mesh)];
  const Shape& shape = value.global_type().shape;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (const Axes& axes = value.layout->dims[d]; axes.is_by_shares())
      out *= static_cast<double>(largest_on(axes, mesh, shape[d], ranks)) /
             static_cast<double>(largest_part(axes, mesh, shape[d]));
  return out;
}

std::int64_t row_bytes(const Graph& graph, const Node& node, const CallWork& call, RanksOf ranks) {
  if (call.kind != WorkKind::contraction) return 0;
  const auto element = static_cast<std::int64_t>(size_of(graph.value(node.operands.front()).type.dtype));
  return row_bytes(call.rule, call.kind, element, [&](int loop) {
    const std::int64_t size = call.rule.loops[static_cast<std::size_t>(loop)].size;
    if (!node.strategy) return size;
    const Mesh& mesh = graph.meshes[static_cast<std::size_t>(node.strategy->mesh)];
    return largest_on(node.strategy->loops[static_cast<std::size_t>(loop)], mesh, size, ranks);
  });
}

double share_of(const Graph& graph, const Node& node, const CallWork& call, RanksOf ranks) {
  if (!node.strategy) return 1;
  double share = 1;
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(node.strategy->mesh)];
  for (std::size_t l = 0; l < call.sizes.size(); ++l) {
    const Axes& axes = node.strategy->loops[l];
    if (axes.empty()) continue;
    const std::int64_t size = call.sizes[l], parts = mesh.count(axes);
    const std::int64_t most = largest_on(axes, mesh, size, ranks);
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

double kernel_seconds(const Graph& graph, const Node& node, const Cluster& cluster) {
  if (node.op->kind != OpKind::compute || node.op->is_alias) return 0;
  return compute_seconds(kernel_work(graph, node, *shared_rule_of(graph, node)), cluster);
}

}  // namespace shardwright
