#include "shardwright/graph/builder.h"

#include "shardwright/base/error.h"

namespace shardwright {

Builder::Builder(Graph& graph) : graph_(graph) {
  for (const Value& v : graph.values) names_.emplace(v.name, 1);
}

std::string Builder::unique(std::string_view name) {
  std::string wanted = name.empty() ? std::to_string(next_number_++) : std::string(name);
  while (name.empty() && names_.contains(wanted)) wanted = std::to_string(next_number_++);
  const auto [it, is_new] = names_.emplace(wanted, 1);
  if (is_new) return wanted;
  std::string numbered;
  do numbered = fmt::format("{}_{}", wanted, ++it->second);
  while (names_.contains(numbered));
  names_.emplace(numbered, 1);
  return numbered;
}

std::vector<ValueId> Builder::call_all(const OpDef& op, std::vector<ValueId> operands, Attributes attributes,
                                       std::string_view name) {
  std::vector<Type> types;
  for (ValueId v : operands) types.push_back(graph_.value(v).type);
  std::vector<Type> results;
  try {
    results = infer(op, {types, {}, attributes});
  } catch (const Error& e) {
    if (name.empty()) throw;
    throw with_context(e, name);
  }
  const NodeId id{static_cast<int>(graph_.nodes.size())};
  Node node{.op = &op, .operands = std::move(operands), .results = {}, .attributes = std::move(attributes)};
  node.phase = phase_;
  node.forward = forward_;
  for (std::size_t i = 0; i < results.size(); ++i) {
    node.results.push_back({static_cast<int>(graph_.values.size())});
    const std::string base = i == 0 || name.empty() ? std::string(name) : fmt::format("{}.{}", name, i);
    graph_.values.push_back(
        {.name = unique(base), .type = std::move(results[i]), .producer = id, .result = static_cast<int>(i)});
  }
  std::vector<ValueId> out = node.results;
  graph_.nodes.push_back(std::move(node));
  return out;
}

ValueId Builder::call(std::string_view op, std::vector<ValueId> operands, Attributes attributes,
                      std::string_view name) {
  return call_all(find_op(op), std::move(operands), std::move(attributes), name).front();
}

ValueId Builder::leaf(OpKind kind, std::string_view name, Type type, Attributes attributes) {
  if (names_.contains(std::string(name))) throw error("the name '{}' is given twice", name);
  names_.emplace(name, 1);
  const NodeId id{static_cast<int>(graph_.nodes.size())};
  const ValueId v{static_cast<int>(graph_.values.size())};
  graph_.values.push_back({.name = std::string(name), .type = std::move(type), .producer = id});
  graph_.nodes.push_back({.op = &op_of(kind),
                          .operands = {},
                          .results = {v},
                          .attributes = std::move(attributes),
                          .phase = phase_});
  return v;
}

}  // namespace shardwright
