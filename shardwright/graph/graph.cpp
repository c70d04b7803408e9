#include "shardwright/graph/graph.h"

#include <array>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"

namespace shardwright {

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, phases> names{"forward", "backward", "weights", "update"};
  return names[static_cast<std::size_t>(phase)];
}

std::string_view name_of(Level level) {
  constexpr std::array<std::string_view, 3> names{"network", "planned graph", "program"};
  return names[static_cast<std::size_t>(level)];
}

ValueId Graph::find(std::string_view name) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].name == name) return {static_cast<int>(i)};
  std::vector<std::string> known;
  for (const Value& v : values) known.push_back(v.name);
  throw error("'{}' is not in the graph{}", name, near_names(name, known));
}

std::vector<NodeId> Graph::node_ids() const {
  std::vector<NodeId> out(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) out[i].index = static_cast<int>(i);
  return out;
}

std::vector<Fusion> fusions_of(const Graph& graph) {
  std::vector<Fusion> out;
  for (NodeId id : graph.node_ids()) {
    if (!graph.node(id).is_fused) out.push_back({id, id});
    out.back().end = {id.index + 1};
  }
  return out;
}

Space space_of(const Graph& graph, ValueId v) {
  const Node& node = graph.node(graph.value(v).producer);
  return node.op->step == StepKind::evict ? Space::host : node.space;
}

bool lie_alike(const Value& a, const Value& b) {
  if (a.global_type().shape != b.global_type().shape || a.type.shape != b.type.shape) return false;
  if (a.format != b.format) return false;
  if (!a.layout || !b.layout) return a.layout.has_value() == b.layout.has_value();
  return a.layout->dims == b.layout->dims && a.layout->mesh == b.layout->mesh;
}

namespace {

std::vector<Type> global_types(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<Type> out;
  out.reserve(ids.size());
  for (ValueId v : ids) out.push_back(graph.value(v).global_type());
  return out;
}

}  // namespace

std::vector<Type> operand_types(const Graph& graph, const Node& node) {
  return global_types(graph, node.operands);
}

std::vector<Type> result_types(const Graph& graph, const Node& node) {
  return global_types(graph, node.results);
}

Rule rule_of(const Graph& graph, const Node& node) {
  const std::vector<Type> operands = operand_types(graph, node);
  const std::vector<Type> results = result_types(graph, node);
  return rule_of(*node.op, {operands, results, node.attributes});
}

}  // namespace shardwright
