#include "shardwright/passes/buffer_kinds.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/kept_leaves.h"

namespace shardwright {

BufferKinds::BufferKinds(const Graph& graph)
    : graph_(graph),
      users_(users_of(graph)),
      is_parameter_(graph.values.size()),
      is_gradient_(graph.values.size()) {
  for (const Node& node : graph.nodes)
    for (ValueId v : node.results) {
      // Steps and aliases leave a value what it is.
      const bool passes_on = node.op->kind == OpKind::step || node.op->is_alias;
      const std::size_t from = passes_on ? at(node.operands.front().index) : 0;
      is_parameter_[at(v.index)] = node.op->kind == OpKind::parameter || (passes_on && is_parameter_[from]);
      is_gradient_[at(v.index)] = is_parameters_gradient(v) || (passes_on && is_gradient_[from]);
    }
}

BufferKind BufferKinds::of(ValueId v) const {
  const Node& producer = graph_.node(graph_.value(v).producer);
  const auto has_user = [&](auto is_so) {
    return std::ranges::any_of(users_[at(v.index)], [&](NodeId u) { return is_so(graph_.node(u)); });
  };
  if (producer.op->kind == OpKind::parameter) return BufferKind::parameter;
  if (producer.op->kind == OpKind::state) return BufferKind::state;
  if (producer.op->kind == OpKind::accumulator) return BufferKind::accumulator;
  if (is_kept_leaf(producer)) return BufferKind::communication;  // received once
  if (is_gradient_[at(v.index)]) return BufferKind::gradient;
  if (is_parameter_[at(v.index)]) return BufferKind::communication;
  if (producer.phase == Phase::forward && has_user([](const Node& n) { return n.phase != Phase::forward; }))
    return BufferKind::activation;
  if (is_transfer(producer) || has_user(is_transfer)) return BufferKind::communication;
  return BufferKind::workspace;
}

bool BufferKinds::is_parameters_gradient(ValueId v) const {
  return std::ranges::any_of(graph_.value(v).gradient_of,
                             [this](ValueId of) { return is_parameter_[at(of.index)]; });
}

}  // namespace shardwright
