#include "shardwright/cost/kernel_work.h"

namespace shardwright {

CallWork call_work(const OpDef& op, const Rule& rule) {
  return {flops_of(op, rule), op.optimizer ? WorkKind::update : work_kind(rule)};
}

double share_of(const Graph& graph, const Node& node) {
  if (!node.strategy) return 1;
  double share = 1;
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(node.strategy->mesh)];
  for (const Axes& axes : node.strategy->loops) share /= mesh.count(axes);
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
  const double flops = call.flops * share_of(graph, node);
  std::vector<ValueId> moved;
  return {.kind = call.kind,
          .flops = flops,
          .bytes = bytes_moved(graph, node, flops, moved, [](ValueId) { return true; }),
          .dtype = graph.value(node.results.front()).type.dtype};
}

}  // namespace shardwright
