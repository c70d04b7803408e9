#include "shardwright/graph/op.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

std::vector<Shape> shapes_of(std::span<const Type> types) {
  std::vector<Shape> out;
  out.reserve(types.size());
  for (const Type& t : types) out.push_back(t.shape);
  return out;
}

std::vector<Type> types_of(const OpDef& op, const Call& call) {
  if (op.infer) return op.infer(call);
  const std::string text = op.rule_for ? op.rule_for(call) : op.rule;
  std::vector<Type> out;
  for (Shape& shape : result_shapes(bind_rule(text, "", shapes_of(call.operands), {})))
    out.push_back({call.operands[0].dtype, std::move(shape)});
  return out;
}

/// A point-wise kernel reads its attributes when it is made: what it would refuse is refused here.
std::vector<Type> inferred(const OpDef& op, const Call& call) try {
  std::vector<Type> types = types_of(op, call);
  if (op.block && !call.attributes.empty()) op.block({call.operands, types, call.attributes});
  return types;
} catch (const Error& e) {
  throw with_context(e, op.name);
}

}  // namespace

std::vector<std::string> states_of(const OptimizerFacet& facet, const Attributes& attributes) {
  std::vector<std::string> out = facet.states;
  if (attributes.flag("master")) out.emplace_back(master_state);
  return out;
}

std::span<const ValueId> state_operands(const Node& node) {
  const std::size_t count = node.op->optimizer->states.size() + (node.attributes.flag("master") ? 1 : 0);
  return std::span(node.operands).subspan(2, count);
}

const OpDef& find_op(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const OpDef*> table;
    for (const OpDef& op : all_ops()) table.emplace(op.name, &op);
    return table;
  }();
  const auto it = by_name.find(name);
  if (it != by_name.end()) return *it->second;
  std::vector<std::string> known;
  for (const OpDef& op : all_ops()) known.push_back(op.name);
  throw error("operator '{}' does not exist{}", name, near_names(name, known));
}

const OpDef& op_of(OpKind kind) {
  static const auto by_kind = [] {
    std::map<OpKind, const OpDef*> table;
    for (const OpDef& op : all_ops()) table.emplace(op.kind, &op);
    return table;
  }();
  return *by_kind.at(kind);
}

const OpDef& op_of(StepKind step, Reduction reduction) {
  for (const OpDef& op : all_ops())
    if (op.step == step && op.reduction == reduction) return op;
  throw InternalError(fmt::format("no operator for step {}", name_of(step)));
}

void check_attributes(const OpDef& op, const Attributes& attributes) {
  for (const auto& [name, value] : attributes)
    if (std::find(op.attributes.begin(), op.attributes.end(), name) == op.attributes.end())
      throw error("{}: attribute '{}' is unknown{}; {}", op.name, name, near_names(name, op.attributes),
                  op.attributes.empty() ? "there are none" : "there are " + join(op.attributes, ", "));
}

Attributes with_defaults(const OpDef& op, const Call& call) {
  Attributes out = op.defaults_for ? op.defaults_for(call) : op.defaults;
  for (const auto& [name, value] : call.attributes) out.set(name, value);
  return out;
}

Rule rule_of(const OpDef& op, const Call& call) try {
  const std::string text = op.rule_for ? op.rule_for(call) : op.rule;
  const std::string linear = op.linear_for ? op.linear_for(call) : op.linear;
  return bind_rule(text, linear, shapes_of(call.operands), shapes_of(call.results));
} catch (const Error& e) {
  throw with_context(e, op.name);
}

std::vector<Type> infer(const OpDef& op, const Call& call) {
  check_attributes(op, call.attributes);
  return inferred(op, call);
}

double flops_of(const OpDef& op, const Rule& rule) {
  if (op.flops) return op.flops(rule);
  double points = 1;
  for (const LoopDim& l : rule.loops) points *= static_cast<double>(l.size);
  return points;
}

}  // namespace shardwright
