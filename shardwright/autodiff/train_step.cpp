#include "shardwright/autodiff/train_step.h"

#include <algorithm>
#include <optional>

#include "shardwright/autodiff/backward.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/verify.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/clip_norm.h"

namespace shardwright {

namespace {

constexpr std::string_view counting_state = "optimizer.step";

}  // namespace

ValueId existing_step_count(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::state && graph.value(node.results.front()).name == counting_state)
      return node.results.front();
  return {};
}

namespace {

/// What gradients are scaled with; invalid if they are taken as they are.
ValueId factor_of(Builder& builder, const std::map<ValueId, ValueId>& gradients,
                  const OptimizerChoice& optimizer) {
  if (optimizer.clip_norm <= 0) return {};
  std::vector<ValueId> all;
  for (const auto& [parameter, gradient] : gradients) all.push_back(gradient);
  return clip_factor(builder, all, optimizer.clip_norm);
}

/// The type in which `parameter` is updated, where that is another than its own.
std::optional<DType> master_of(const Graph& graph, ValueId parameter) {
  const Value& v = graph.value(parameter);
  const std::string name = graph.node(v.producer).attributes.text("master", "");
  if (name.empty()) return std::nullopt;
  const auto dtype = dtype_of(name);
  if (!dtype || !is_floating(*dtype) || size_of(*dtype) <= size_of(v.type.dtype))
    throw error("%{} is {} but its master is {}; it should be a longer floating type", v.name,
                to_text(v.type), name);
  return dtype;
}

bool has_master(const Graph& graph, ValueId parameter) { return master_of(graph, parameter).has_value(); }

/// A master starts with the values of its parameter, unrounded.
Attributes start_of_master(const Graph& graph, ValueId parameter) {
  Attributes out = graph.node(graph.value(parameter).producer).attributes;
  Attributes start;
  for (const auto& [name, value] : out)
    if (name != "master" && name != "comm_fusion") start.set(name, value);
  if (start.text("as", "").empty()) start.set("as", graph.value(parameter).name);
  return start;
}

/// Brings the gradients of parameters with a master into its type.
void cast_for_masters(Builder& builder, std::map<ValueId, ValueId>& gradients) {
  Graph& graph = builder.graph();
  for (auto& [parameter, gradient] : gradients) {
    const auto master = master_of(graph, parameter);
    if (!master) continue;
    gradient = cast_to(builder, gradient, *master);
    graph.value(gradient).gradient_of = {parameter};
  }
}

}  // namespace

ValueId step_count(Builder& builder) {
  const ValueId count = existing_step_count(builder.graph());
  if (!count.is_valid())
    return builder.leaf(OpKind::state, counting_state, {DType::f32, {}}, {{"init", "zeros"}});
  return count;
}

const OpDef& optimizer_called(std::string_view name) {
  std::vector<std::string> known;
  for (const OpDef& op : all_ops()) {
    if (!op.optimizer) continue;
    if (op.name == name) return op;
    known.push_back(op.name);
  }
  throw error("optimizer '{}' does not exist; there are {}", name, join(known, ", "));
}

void add_train_step(Graph& graph, ValueId loss, const OptimizerChoice& optimizer) {
  const OpDef& op = optimizer_called(optimizer.name);
  graph.nodes.reserve(4 * graph.nodes.size());  // about what it will be
  graph.values.reserve(5 * graph.values.size());
  Builder builder(graph);
  std::map<ValueId, ValueId> gradients = add_backward(builder, loss);
  if (gradients.empty()) throw error("the loss %{} depends on no parameter", graph.value(loss).name);

  // What is cast in the backward stays partial as it came out, and is reduced in the longer type.
  if (!optimizer.reduces_short) cast_for_masters(builder, gradients);
  builder.set_phase(Phase::update);
  if (optimizer.reduces_short) cast_for_masters(builder, gradients);
  const ValueId count = op.optimizer->counts_steps ? step_count(builder) : existing_step_count(graph);
  if (count.is_valid()) graph.updates.push_back({count, shifted(builder, count, 1)});
  const ValueId factor = factor_of(builder, gradients, optimizer);
  for (const auto& [parameter, gradient] : gradients) {
    const std::string name = graph.value(parameter).name;
    const Type type = graph.value(gradient).type;
    Attributes attributes = optimizer.attributes;
    if (has_master(graph, parameter)) attributes.set("master", true);
    std::vector<ValueId> operands{parameter,
                                  factor.is_valid() ? scaled(builder, gradient, factor) : gradient};
    for (const std::string& state : op.optimizer->states)
      operands.push_back(builder.leaf(OpKind::state, name + "." + state, type, {{"init", "zeros"}}));
    if (has_master(graph, parameter))
      operands.push_back(builder.leaf(OpKind::state, fmt::format("{}.{}", name, master_state), type,
                                      start_of_master(graph, parameter)));
    const std::vector<ValueId> states(operands.begin() + 2, operands.end());
    if (op.optimizer->counts_steps) operands.push_back(count);
    const auto results = builder.call_all(op, std::move(operands), attributes, name + ".new");
    graph.updates.push_back({parameter, results.front()});
    for (std::size_t i = 0; i < states.size(); ++i) graph.updates.push_back({states[i], results[i + 1]});
  }
  graph.outputs.erase(std::remove(graph.outputs.begin(), graph.outputs.end(), loss), graph.outputs.end());
  graph.outputs.insert(graph.outputs.begin(), loss);
  check_bytes(graph);
}

}  // namespace shardwright
