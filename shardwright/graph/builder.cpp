#include "shardwright/graph/builder.h"

#include "shardwright/base/error.h"
#include "shardwright/graph/verify.h"

namespace shardwright {

Builder::Builder(Graph& graph)
    : graph_(graph), names_(2 * graph.values.size(), HashOfName{&graph}, SameName{&graph}) {
  for (std::size_t v = 0; v < graph.values.size(); ++v) names_.insert({static_cast<int>(v)});
}

std::string Builder::free_name(std::string_view name) {
  if (!name.empty() && !names_.contains(name)) return std::string(name);
  std::string free;
  if (name.empty()) {
    do free = std::to_string(next_number_++);
    while (names_.contains(std::string_view(free)));
  } else {
    int& repeats = repeats_.emplace(name, 1).first->second;
    do free = fmt::format("{}_{}", name, ++repeats);
    while (names_.contains(std::string_view(free)));
  }
  return free;
}

ValueId Builder::add(Value value) {
  check_room(graph_);
  const ValueId id{static_cast<int>(graph_.values.size())};
  graph_.values.push_back(std::move(value));
  names_.insert(id);
  return id;
}

NodeId Builder::add(const OpDef& op, std::vector<ValueId> operands, Attributes attributes,
                    std::string_view name) {
  if (operand_types_.size() < operands.size()) operand_types_.resize(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) operand_types_[i] = graph_.value(operands[i]).type;
  std::vector<Type> results;
  try {
    results = infer(op, {std::span(operand_types_).first(operands.size()), {}, attributes});
    for (const Type& type : results) element_count(type.shape);  // none is too large
  } catch (const Error& e) {
    if (name.empty()) throw;
    throw with_context(e, name);
  }
  const NodeId id{static_cast<int>(graph_.nodes.size())};
  Node& node = graph_.nodes.emplace_back();
  node.op = &op;
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.phase = phase_;
  node.forward = forward_;
  node.results.reserve(results.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    node.results.push_back(
        add({.name = i == 0 || name.empty() ? free_name(name) : free_name(fmt::format("{}.{}", name, i)),
             .type = std::move(results[i]),
             .producer = id,
             .result = static_cast<int>(i)}));
  return id;
}

ValueId Builder::call(std::string_view op, std::vector<ValueId> operands, Attributes attributes,
                      std::string_view name) {
  return graph_.node(add(find_op(op), std::move(operands), std::move(attributes), name)).results.front();
}

std::vector<ValueId> Builder::call_all(const OpDef& op, std::vector<ValueId> operands, Attributes attributes,
                                       std::string_view name) {
  return graph_.node(add(op, std::move(operands), std::move(attributes), name)).results;
}

ValueId Builder::leaf(OpKind kind, std::string_view name, Type type, Attributes attributes) {
  if (names_.contains(name)) throw error("the name '{}' is given twice", name);
  element_count(type.shape);  // it is not too large
  const NodeId id{static_cast<int>(graph_.nodes.size())};
  const ValueId v = add({.name = std::string(name), .type = std::move(type), .producer = id});
  graph_.nodes.push_back({.op = &op_of(kind),
                          .operands = {},
                          .results = {v},
                          .attributes = std::move(attributes),
                          .phase = phase_});
  return v;
}

}  // namespace shardwright
