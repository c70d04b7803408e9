#include "shardwright/graph/rewrite.h"

#include <algorithm>
#include <numeric>

#include "shardwright/graph/op.h"

namespace shardwright {

Users::Users(const Graph& graph) : begins_(graph.values.size() + 2) {
  // Counted two places on, then summed, then filled: what was where a value's users begin is then where they end.
  for (const Node& node : graph.nodes)
    for (ValueId v : node.operands) ++begins_[static_cast<std::size_t>(v.index) + 2];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  nodes_.resize(begins_.back());
  for (NodeId id : graph.node_ids())
    for (ValueId v : graph.node(id).operands) nodes_[begins_[static_cast<std::size_t>(v.index) + 1]++] = id;
}

std::vector<bool> held_values(const Graph& graph) {
  std::vector<bool> held(graph.values.size(), false);
  for (ValueId v : graph.outputs) held[static_cast<std::size_t>(v.index)] = true;
  for (ValueId v : graph.sends) held[static_cast<std::size_t>(v.index)] = true;
  for (const Update& u : graph.updates) held[static_cast<std::size_t>(u.value.index)] = true;
  return held;
}

std::vector<NodeId> kept(const std::vector<bool>& keep) {
  std::vector<NodeId> out;
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) out.push_back({static_cast<int>(i)});
  return out;
}

namespace {

/// All nodes in their order, each with the values that come next, none of which is replaced.
bool is_rebuilt(const Graph& graph, std::span<const NodeId> nodes, const std::vector<ValueId>& replacement) {
  if (nodes.size() != graph.nodes.size()) return false;
  if (std::ranges::any_of(replacement, &ValueId::is_valid)) return false;
  int values = 0;
  for (NodeId id{0}; id.index < static_cast<int>(nodes.size()); ++id.index) {
    const Node& node = graph.node(id);
    if (nodes[static_cast<std::size_t>(id.index)] != id || node.forward.index >= id.index) return false;
    for (ValueId v : node.operands)
      if (v.index >= values) return false;
    const auto is_from_before = [&](ValueId of) { return of.is_valid() && of.index < values; };
    for (ValueId v : node.results) {
      const Value& value = graph.value(v);
      if (v.index != values || value.producer != id) return false;
      if (!std::ranges::all_of(value.gradient_of, is_from_before)) return false;
      ++values;
    }
  }
  return static_cast<std::size_t>(values) == graph.values.size();
}

}  // namespace

Graph rebuild(Graph graph, std::span<const NodeId> nodes, const std::vector<ValueId>& replacement) {
  if (is_rebuilt(graph, nodes, replacement)) return graph;
  std::vector<ValueId> new_value(graph.values.size());
  std::vector<NodeId> new_node(graph.nodes.size());
  const auto resolve = [&](ValueId v) {
    while (replacement[static_cast<std::size_t>(v.index)].is_valid())
      v = replacement[static_cast<std::size_t>(v.index)];
    return v;
  };
  Graph out{.level = graph.level};
  out.meshes = std::move(graph.meshes);
  out.nodes.reserve(nodes.size());
  out.values.reserve(graph.values.size());
  for (NodeId id : nodes) {
    Node node = std::move(graph.node(id));
    const NodeId fresh{static_cast<int>(out.nodes.size())};
    new_node[static_cast<std::size_t>(id.index)] = fresh;
    for (ValueId& v : node.operands) {
      const ValueId old = resolve(v);
      v = new_value[static_cast<std::size_t>(old.index)];
      require(v.is_valid(), "{} is used but gone", graph.value(old).name);
    }
    for (ValueId& v : node.results) {
      Value value = std::move(graph.value(v));
      value.producer = fresh;
      for (ValueId& of : value.gradient_of) of = new_value[static_cast<std::size_t>(resolve(of).index)];
      std::erase_if(value.gradient_of, [](ValueId of) { return !of.is_valid(); });
      new_value[static_cast<std::size_t>(v.index)] = {static_cast<int>(out.values.size())};
      v = new_value[static_cast<std::size_t>(v.index)];
      out.values.push_back(std::move(value));
    }
    if (node.forward.is_valid()) node.forward = new_node[static_cast<std::size_t>(node.forward.index)];
    out.nodes.push_back(std::move(node));
  }
  const auto moved = [&](ValueId v) { return new_value[static_cast<std::size_t>(resolve(v).index)]; };
  for (ValueId v : graph.outputs) out.outputs.push_back(moved(v));
  for (ValueId v : graph.sends) out.sends.push_back(moved(v));
  for (const Update& u : graph.updates) out.updates.push_back({moved(u.leaf), moved(u.value)});
  return out;
}

std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> live(graph.nodes.size(), false);
  std::vector<NodeId> open;
  const auto need = [&](ValueId v) {
    const NodeId id = graph.value(v).producer;
    if (live[static_cast<std::size_t>(id.index)]) return;
    live[static_cast<std::size_t>(id.index)] = true;
    open.push_back(id);
  };
  for (ValueId v : graph.outputs) need(v);
  for (ValueId v : graph.sends) need(v);
  for (const Update& u : graph.updates) {
    need(u.leaf);
    need(u.value);
  }
  for (NodeId id : graph.node_ids()) {
    const OpKind kind = graph.node(id).op->kind;
    if (kind != OpKind::compute && kind != OpKind::step) need(graph.node(id).results.front());
  }
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    for (ValueId v : graph.node(id).operands) need(v);
  }
  return live;
}

Graph without_dead_nodes(Graph graph) {
  const std::vector<NodeId> live = kept(live_nodes(graph));
  const std::vector<ValueId> same(graph.values.size());
  return rebuild(std::move(graph), live, same);
}

}  // namespace shardwright
