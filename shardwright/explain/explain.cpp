#include "shardwright/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/explain/candidates.h"
#include "shardwright/explain/coarse.h"
#include "shardwright/explain/neighbourhood.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/recompute.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/complete.h"
#include "shardwright/plan/leaves.h"

namespace shardwright {
namespace {

/// On meshes of more axes, those that are always together become one.
constexpr int many_axes = 3;
/// So many candidates are priced; fewer where paths between layouts are long to search.
constexpr std::size_t most_priced = 256, most_priced_on_many_axes = 16;

/// An operator among its neighbours.
struct Surroundings {
  Neighbourhood near;  // on few axes
  Rule rule;
  std::vector<bool> leaf_follows;  // per operand: it lies where the operator reads it
  Redistributor redistributor;

  const std::vector<Mesh>& meshes() const { return near.graph.meshes; }
  bool has_many_axes() const {
    return std::ranges::any_of(meshes(), [](const Mesh& m) { return m.axis_count() > many_axes; });
  }
};

/// Does the plan keep operand `i` where its strategy reads it, and for no other operator's sake?
bool leaf_follows(const Graph& graph, NodeId id, std::size_t i, const Rule& rule,
                  const OptimizerParallel& shared) {
  const Node& node = graph.node(id);
  const ValueId v = node.operands[i];
  const OpKind kind = graph.node(graph.value(v).producer).op->kind;
  if (kind == OpKind::compute) return false;
  const Reader reader = first_forward_reader(graph, v);
  if (reader.node != id || reader.operand != i) return false;
  Layout layout = stored(layouts_of(rule, *node.strategy).operands[i]);
  if (kind == OpKind::parameter) layout = weight_layout(layout, graph.meshes, graph.value(v).type, shared);
  return graph.value(v).layout == layout;
}

Surroundings surroundings_of(const Graph& graph, NodeId id, const OptimizerParallel& shared,
                             const Cluster& cluster) {
  const Node& node = graph.node(id);
  Neighbourhood near = neighbourhood_of(graph, id);
  near.graph = on_few_axes(std::move(near.graph), many_axes);
  Redistributor redistributor = redistributor_for(near.graph.meshes, cluster);
  Surroundings out{std::move(near), rule_of(graph, node), {}, std::move(redistributor)};
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    out.leaf_follows.push_back(leaf_follows(graph, id, i, out.rule, shared));
  return out;
}

/// Leaves of the backward lie as follows from what it does (plan/complete.h).
bool follows_backward(const Graph& graph, const Node& leaf) {
  return leaf.op->kind == OpKind::accumulator ||
         (leaf.op->kind == OpKind::receive && leaf.phase == Phase::backward &&
          !graph.value(leaf.results.front()).gradient_of.empty());
}

/// The neighbourhood with `strategy` in place of the plan's, and what follows from it.
Graph with_strategy(Surroundings& here, const Strategy& strategy, const OptimizerParallel& shared) {
  PlannedGraph planned{.graph = here.near.graph, .update_layouts = {}};
  Graph& graph = planned.graph;
  for (NodeId id : graph.node_ids())
    if (here.near.is_own[at(id.index)]) graph.node(id).strategy.reset();
  Node& node = graph.node(here.near.node);
  node.strategy = strategy;
  const NodeLayouts layouts = layouts_of(here.rule, strategy);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!here.leaf_follows[i]) continue;
    Value& leaf = graph.value(node.operands[i]);
    leaf.layout = stored(layouts.operands[i]);
    if (graph.node(leaf.producer).op->kind == OpKind::parameter)
      leaf.layout = weight_layout(*leaf.layout, graph.meshes, leaf.type, shared);
  }
  for (const Node& leaf : graph.nodes)
    if (follows_backward(graph, leaf)) graph.value(leaf.results.front()).layout.reset();
  shard_states(planned, graph.meshes, shared);
  complete(graph, here.redistributor, planned.update_layouts);
  return std::move(graph);
}

/// Gradients are called after their values: names of their own are numbers.
std::string spoken_name(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  return value.gradient_of.empty() ? value.name
                                   : "the gradient of " + graph.value(value.gradient_of.back()).name;
}

Candidate priced(Surroundings& here, const Strategy& strategy, const OptimizerParallel& shared,
                 const Cluster& cluster) {
  const Graph graph = with_strategy(here, strategy, shared);
  Candidate out{.strategy = strategy, .cost = {}};
  double most_reduced = 0, most_moved = 0;
  for (const CostItem& item : cost_items(graph, here.redistributor, cluster)) {
    const bool counts = item.kind == CostItem::Kind::compute ? here.near.is_own[at(item.node.index)]
                                                             : here.near.is_touched[at(item.value.index)];
    const bool is_made_outside =
        item.kind == CostItem::Kind::kept && !item.reader.is_valid() && item.node != here.near.node;
    if (!counts || is_made_outside) continue;
    add(out.cost, item);
    if (item.kind != CostItem::Kind::transfer) continue;
    double& most = item.is_reduction ? most_reduced : most_moved;
    if (item.seconds <= most) continue;
    most = item.seconds;
    (item.is_reduction ? out.most_reduced : out.most_moved) = spoken_name(graph, item.value);
  }
  return out;
}

/// Seconds rounded to picoseconds: sums of equal things are equal.
double rounded(double seconds) { return std::round(seconds * 1e12); }

/// Equal for nodes that do the same work.
std::string call_text(const Graph& graph, const Node& node) {
  std::string out = node.op->name + to_text(node.attributes);
  for (const auto& types : {operand_types(graph, node), result_types(graph, node)})
    for (const Type& type : types) out += " " + to_text(type);
  return out;
}

const PlannedOperator& operator_called(const StagePlan& plan, std::string_view name) {
  std::vector<std::string> known, inside;
  for (const PlannedOperator& op : plan.operators) {
    if (op.name == name) return op;
    known.push_back(op.name);
    if (op.name.starts_with(std::string(name) + ".") && inside.size() < 5) inside.push_back(op.name);
  }
  if (!inside.empty()) throw error("'{}' is no operator; there are {}", name, join(inside, ", "));
  throw error("the plan has no operator '{}'{}", name, near_names(name, known));
}

}  // namespace

Explainer::Explainer(PlannedGraph planned, const Plan& plan, std::size_t stage)
    : plan_(plan),
      stage_(plan.stages.at(stage)),
      cluster_(plan.cluster_of(stage)),
      has_layers_(planned.has_layers),
      graph_(completed(std::move(planned), cluster_).graph),
      redistributor_(redistributor_for(graph_.meshes, cluster_)),
      is_batch_(batch_dims(graph_)) {}

Explanation Explainer::explain(std::string_view name, std::size_t most) {
  const PlannedOperator& planned = operator_called(stage_, name);
  const NodeId id = graph_.value(graph_.find(planned.name)).producer;
  const OptimizerParallel& shared = plan_.settings.optimizer_parallel;
  Surroundings here = surroundings_of(graph_, id, shared, cluster_);
  const Strategy choice = *here.near.graph.node(here.near.node).strategy;
  const Strategy by_batch = batch_strategy(graph_, graph_.node(id), is_batch_, here.meshes()[0]);

  Explanation out{.planned = planned,
                  .rule = here.rule,
                  .meshes = here.meshes(),
                  .candidates = {},
                  .overlap = cluster_.overlap};
  Candidates candidates = candidates_of(here.rule, here.meshes(), choice,
                                        here.has_many_axes() ? most_priced_on_many_axes : most_priced);
  for (const Strategy& s : candidates.strategies) out.candidates.push_back(priced(here, s, shared, cluster_));
  std::ranges::stable_sort(out.candidates, {}, [&](const Candidate& c) {
    return std::tuple(rounded(c.cost.seconds()), c.strategy != choice, c.cost.bytes());
  });
  out.left_out = candidates.left_out;
  std::vector<Candidate> listed;
  for (Candidate& c : out.candidates) {
    const bool is_choice = c.strategy == choice;
    const bool is_by_batch = c.strategy == by_batch && !used_axes(by_batch).empty();
    if (listed.size() >= most && !is_choice && !is_by_batch) {
      ++out.left_out;
      continue;
    }
    if (is_choice) out.choice = listed.size();
    if (is_by_batch) out.data_parallel = listed.size();
    listed.push_back(std::move(c));
  }
  out.candidates = std::move(listed);
  return out;
}

std::vector<OperatorShare> Explainer::shares(const StageSeconds& seconds) {
  const Graph graph =
      with_recompute(graph_, regions_of(graph_, plan_.settings.recompute, has_layers_), redistributor_);
  std::vector<OperatorCost> costs = operator_costs(graph, redistributor_, cluster_);
  std::map<std::string, NodeId> nodes, owners;  // what is recomputed stands between the planned ones
  for (NodeId id : graph.node_ids()) nodes[graph.name_of(id)] = id;
  for (NodeId id : graph_.node_ids()) owners[graph_.name_of(id)] = id;
  std::map<std::string, int> calls;
  std::vector<OperatorShare> out;
  for (const PlannedOperator& op : stage_.operators) {
    const NodeId id = nodes.at(op.name);
    const auto [call, is_new] =
        calls.emplace(call_text(graph, graph.node(id)), static_cast<int>(calls.size()));
    OperatorCost& cost = costs[at(id.index)];
    const std::size_t owner = at(owners.at(op.name).index);
    const OperatorSeconds own =
        owner < seconds.operators.size() ? seconds.operators[owner] : OperatorSeconds{};
    cost.compute_seconds = own.compute;
    cost.communication_seconds = own.reduction;
    cost.redistribution_seconds = own.redistribution;
    out.push_back({std::move(cost), call->second});
  }
  return out;
}

}  // namespace shardwright
