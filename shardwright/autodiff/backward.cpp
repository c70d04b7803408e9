#include "shardwright/autodiff/backward.h"

#include "shardwright/graph/builder.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/clip_norm.h"

namespace shardwright {
namespace {

std::size_t at(ValueId v) { return static_cast<std::size_t>(v.index); }

/// By value: those whose gradients are wanted.
std::vector<bool> wanted_values(const Graph& graph, const std::vector<ValueId>& of) {
  std::vector<bool> wanted(graph.values.size(), false);
  for (ValueId v : of) wanted[at(v)] = true;
  if (!of.empty()) return wanted;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::parameter && !is_frozen(node)) wanted[at(node.results.front())] = true;
  return wanted;
}

/// Values that depend on a wanted one through floating values: the only ones that need a gradient.
std::vector<bool> needing_gradients(const Graph& graph, const std::vector<bool>& wanted) {
  std::vector<bool> needs(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    bool is_needed = false;
    for (ValueId v : node.operands) is_needed = is_needed || needs[at(v)];
    for (ValueId v : node.results)
      needs[at(v)] = (is_needed || wanted[at(v)]) && is_floating(graph.value(v).type.dtype);
  }
  return needs;
}

class Backward {
 public:
  Backward(Builder& builder, ValueId loss, const BackwardOptions& options)
      : graph_(builder.graph()),
        builder_(builder),
        options_(options),
        wanted_(wanted_values(graph_, options.of)),
        needs_(needing_gradients(graph_, wanted_)),
        contributions_(graph_.values.size()),
        node_count_(static_cast<int>(graph_.nodes.size())) {
    builder_.set_phase(Phase::backward);
    const ValueId seed = constant(builder_, graph_.value(loss).type.dtype, 1);
    graph_.value(seed).gradient_of.push_back(loss);
    if (!options_.loss_scale.is_valid())
      contributions_[at(loss)].push_back(seed);
    else
      contribute(loss, scaled(builder_, seed, scale_as(graph_.value(loss).type.dtype, loss)));
  }

  std::map<ValueId, ValueId> run() {
    std::map<ValueId, ValueId> out;
    for (int i = node_count_; i-- > 0;) {
      const NodeId id{i};
      const OpKind kind = graph_.node(id).op->kind;
      const std::vector<ValueId> results = graph_.node(id).results;
      for (ValueId v : results) {
        if (!wanted_[at(v)]) continue;
        if (options_.in_master_types && kind == OpKind::parameter) cast_contributions(v);
        if (const ValueId g = gathered(v); g.is_valid()) out.emplace(v, g);
      }
      if (kind == OpKind::compute) differentiate(id);
    }
    builder_.set_forward({});
    return out;
  }

 private:
  /// The scale in the type of the loss, where the loss is.
  ValueId scale_as(DType dtype, ValueId loss) {
    const ValueId scale = cast_to(builder_, options_.loss_scale, dtype);
    if (scale != options_.loss_scale) graph_.value(scale).gradient_of.push_back(loss);
    return scale;
  }

  void contribute(ValueId to, ValueId gradient) {
    contributions_[at(to)].push_back(gradient);
    graph_.value(gradient).gradient_of.push_back(to);
  }

  /// The gradient of `v`: its only contribution, or the sum of all; invalid if there is none.
  ValueId gathered(ValueId v) {
    std::vector<ValueId>& all = contributions_[at(v)];
    if (all.empty()) return {};
    if (all.size() > 1) {
      builder_.set_forward({});
      const ValueId sum = sum_of(builder_, all);
      graph_.value(sum).gradient_of = {v};
      all = {sum};
    }
    return all.front();
  }

  void cast_contributions(ValueId parameter) {
    const auto dtype = master_type(graph_, parameter);
    if (!dtype) return;
    builder_.set_forward({});
    for (ValueId& g : contributions_[at(parameter)]) {
      g = cast_to(builder_, g, *dtype);
      graph_.value(g).gradient_of = {parameter};
    }
  }

  void differentiate(NodeId id) {
    bool has_gradient = false, is_needed = false;
    std::vector<ValueId> dy;
    const std::vector<ValueId> results = graph_.node(id).results;
    const std::vector<ValueId> operands = graph_.node(id).operands;
    for (ValueId v : operands) is_needed = is_needed || needs_[at(v)];
    if (!is_needed) return;
    for (ValueId v : results) has_gradient = has_gradient || !contributions_[at(v)].empty();
    if (!has_gradient) return;
    for (ValueId v : results) dy.push_back(gathered(v));

    const OpDef& op = *graph_.node(id).op;
    if (!op.gradient) throw error("{}: operator {} has no gradient", graph_.name_of(id), op.name);
    builder_.set_forward(id);
    Gradient g(builder_, id, std::move(dy));
    const std::vector<ValueId> flows = gradients_of(g, op, id);
    for (std::size_t i = 0; i < operands.size() && i < flows.size(); ++i)
      if (flows[i].is_valid() && needs_[at(operands[i])]) contribute(operands[i], flows[i]);
  }

  std::vector<ValueId> gradients_of(Gradient& g, const OpDef& op, NodeId id) const try {
    return op.gradient(g);
  } catch (const Error& e) {
    throw with_context(e, fmt::format("the gradient of {} = {}", graph_.name_of(id), op.name));
  }

  Graph& graph_;
  Builder& builder_;
  const BackwardOptions& options_;
  std::vector<bool> wanted_, needs_;
  std::vector<std::vector<ValueId>> contributions_;  // per forward value
  int node_count_;                                   // of the forward phase
};

}  // namespace

std::optional<DType> master_type(const Graph& graph, ValueId parameter) {
  const Value& v = graph.value(parameter);
  const std::string name = graph.node(v.producer).attributes.text("master", "");
  if (name.empty()) return std::nullopt;
  const auto dtype = dtype_of(name);
  if (!dtype || !is_floating(*dtype) || size_of(*dtype) <= size_of(v.type.dtype))
    throw error("%{} is {} but its master is {}; it should be a longer floating type", v.name,
                to_text(v.type), name);
  return dtype;
}

std::map<ValueId, ValueId> add_backward(Builder& builder, ValueId loss, const BackwardOptions& options) {
  const Value& value = builder.graph().value(loss);
  if (!value.type.shape.empty() || !is_floating(value.type.dtype))
    throw error("the loss %{} is {}; it should be a floating scalar", value.name, to_text(value.type));
  return Backward(builder, loss, options).run();
}

std::map<ValueId, ValueId> add_backward(Graph& graph, ValueId loss) {
  Builder builder(graph);
  return add_backward(builder, loss);
}

}  // namespace shardwright
