#include "shardwright/explain/operator_cost.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/cost/kernel_work.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/lower/expand.h"
#include "shardwright/lower/program.h"
#include "shardwright/lower/routed_rows.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/plan/owners.h"

namespace shardwright {
namespace {

/// Lowering keeps the order of nodes and adds steps in between; so what is no step is the graph's next node, or the next
/// part of one that is expanded.
class Itemization {
 public:
  Itemization(const Graph& graph, Redistributor& redistributor, const Cluster& cluster)
      : graph_(graph),
        redistributor_(redistributor),
        cluster_(cluster),
        expanded_(expanded(graph)),
        program_(with_routed_rows(lower(expanded_.graph, redistributor).graph)),
        users_(users_of(program_)),
        logical_(program_.nodes.size()) {
    int next = 0;
    for (NodeId id : program_.node_ids())
      if (!is_step(id)) logical_[at(id.index)] = expanded_.origins[at(next++)];
  }

  std::vector<CostItem> run() {
    for (NodeId id : program_.node_ids()) {
      const Node& node = program_.node(id);
      if (is_step(id))
        add_transfer(id);
      else if (node.op->kind == OpKind::compute)
        items_.push_back(
            {.node = logical_[at(id.index)], .seconds = kernel_seconds(program_, node, cluster_)});
      add_memory(id);
    }
    return std::move(items_);
  }

 private:
  bool is_step(NodeId id) const { return program_.node(id).op->kind == OpKind::step; }

  /// The value of the graph that `v` is a form of, and the node of the graph that makes it.
  struct Source {
    NodeId node;
    ValueId value;
    bool is_copy = false;  // not as it was made
  };
  Source source_of(ValueId v) const {
    Source out;
    while (is_step(program_.value(v).producer)) {
      out.is_copy = out.is_copy || !is_reducing(*program_.node(program_.value(v).producer).op->step);
      v = program_.node(program_.value(v).producer).operands.front();
    }
    out.node = logical_[at(program_.value(v).producer.index)];
    const std::vector<ValueId>& results = graph_.node(out.node).results;
    const std::size_t result = at(program_.value(v).result);
    out.value = result < results.size() ? results[result] : results.front();
    return out;
  }

  /// The first node of the graph that reads `v`, perhaps after further steps.
  NodeId reader_of(ValueId v) const {
    for (NodeId user : users_[at(v.index)]) {
      const NodeId found =
          is_step(user) ? reader_of(program_.node(user).results.front()) : logical_[at(user.index)];
      if (found.is_valid()) return found;
    }
    return {};
  }

  void add_transfer(NodeId id) {
    const Node& node = program_.node(id);
    if (!is_collective(*node.op->step)) return;
    const Step step = step_of(program_, node);
    const Redistribution& r = redistribution_of(program_, node, redistributor_);
    const Source source = source_of(node.results.front());
    items_.push_back(
        {.node = source.node,
         .reader = reader_of(node.results.front()),
         .value = source.value,
         .kind = CostItem::Kind::transfer,
         .is_reduction = is_reducing(*node.op->step),
         .seconds = r.seconds,
         .traffic = {.kind = step.kind,
                     .axes = step.axes.empty() ? "" : to_text(step.axes, redistributor_.mesh_of(step.from)),
                     .phase = node.phase,
                     .count = 1,
                     .bytes = r.bytes}});
  }

  void add_memory(NodeId id) {
    const Node& node = program_.node(id);
    const auto add = [&](CostItem::Kind kind, ValueId v) {
      const Source source = source_of(v);
      items_.push_back({.node = source.node,
                        .reader = source.is_copy ? reader_of(v) : NodeId{},
                        .value = source.value,
                        .kind = kind,
                        .bytes = program_.value(v).type.bytes()});
    };
    if (node.op->kind == OpKind::parameter) add(CostItem::Kind::weight, node.results.front());
    if (node.op->optimizer)  // the gradient and the states
      for (std::size_t i = 1; i < 2 + state_operands(node).size(); ++i)
        items_.push_back({.node = logical_[at(id.index)],
                          .value = graph_.node(logical_[at(id.index)]).operands[i],
                          .kind = CostItem::Kind::weight,
                          .bytes = program_.value(node.operands[i]).type.bytes()});
    const bool is_leaf = node.op->kind != OpKind::compute && !is_step(id);
    if (is_leaf || node.phase != Phase::forward || node.op->is_alias) return;
    for (ValueId v : node.results)
      if (is_read_later(v)) add(CostItem::Kind::kept, v);
  }

  /// By the backward, or an operator whose result is the same memory is.
  bool is_read_later(ValueId v) const {
    return std::any_of(users_[at(v.index)].begin(), users_[at(v.index)].end(), [&](NodeId user) {
      const Node& node = program_.node(user);
      return node.phase != Phase::forward || (node.op->is_alias && is_read_later(node.results.front()));
    });
  }

  const Graph& graph_;
  Redistributor& redistributor_;
  const Cluster& cluster_;
  Expanded expanded_;
  Graph program_;
  Users users_;
  std::vector<NodeId> logical_;  // per node of the program; invalid for steps
  std::vector<CostItem> items_;
};

}  // namespace

std::vector<CostItem> cost_items(const Graph& graph, Redistributor& redistributor, const Cluster& cluster) {
  return Itemization(graph, redistributor, cluster).run();
}

void add(OperatorCost& cost, const CostItem& item) {
  if (item.kind == CostItem::Kind::compute) cost.compute_seconds += item.seconds;
  if (item.kind == CostItem::Kind::weight) cost.weight_bytes += item.bytes;
  if (item.kind == CostItem::Kind::kept) cost.kept_bytes += item.bytes;
  if (item.kind != CostItem::Kind::transfer) return;
  (item.is_reduction ? cost.communication_seconds : cost.redistribution_seconds) += item.seconds;
  for (CollectiveTraffic& t : cost.traffic) {
    if (t.kind != item.traffic.kind || t.axes != item.traffic.axes || t.phase != item.traffic.phase) continue;
    t.count += item.traffic.count;
    t.bytes += item.traffic.bytes;
    return;
  }
  cost.traffic.push_back(item.traffic);
}

std::vector<OperatorCost> operator_costs(const Graph& graph, Redistributor& redistributor,
                                         const Cluster& cluster) {
  std::vector<OperatorCost> out(graph.nodes.size());
  const std::vector<NodeId> owners = owners_of(graph);
  const auto owner = [&](NodeId id) { return id.is_valid() ? owners[at(id.index)] : NodeId{}; };
  for (const CostItem& item : cost_items(graph, redistributor, cluster)) {
    NodeId id = owner(item.node);
    if (item.reader.is_valid() && !item.is_reduction) id = owner(item.reader);
    if (id.is_valid()) add(out[at(id.index)], item);
  }
  return out;
}

}  // namespace shardwright
