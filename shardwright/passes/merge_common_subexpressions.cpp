// Two nodes are the same if operator, operands (after merging), attributes, strategy and result layouts are.
// Steps are merged only within a phase: a parameter that is gathered again for the backward is gathered again
// on purpose. So is a recomputed node, which is never merged into the forward; a backward node that makes the same
// as a forward node that is recomputed is merged with the recomputed one, or the forward's result would be kept.

#include <algorithm>
#include <unordered_set>

#include "shardwright/base/random.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

struct Key {
  const Graph* graph;
  NodeId node;
  std::vector<ValueId> operands;  // after merging
  Phase phase;
  bool is_made_again;  // in the backward, of what the forward has made

  bool operator==(const Key& other) const {
    const Node &a = graph->node(node), &b = graph->node(other.node);
    const auto lie_alike = [this](ValueId v, ValueId w) {
      return graph->value(v).layout == graph->value(w).layout;
    };
    return a.op == b.op && a.space == b.space && operands == other.operands && phase == other.phase &&
           is_made_again == other.is_made_again && a.attributes == b.attributes && a.strategy == b.strategy &&
           std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(), lie_alike);
  }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    const Node& node = key.graph->node(key.node);
    std::uint64_t h = hash_of(node.attributes) ^ std::hash<const OpDef*>()(node.op);
    for (ValueId v : key.operands) h = splitmix64(h ^ static_cast<std::uint64_t>(v.index));
    return h;
  }
};

/// Per node whether the backward has a copy of it.
std::vector<bool> recomputed_nodes(const Graph& graph) {
  std::vector<bool> out(graph.nodes.size(), false);
  for (const Node& node : graph.nodes)
    if (node.is_recomputed && node.forward.is_valid())
      out[static_cast<std::size_t>(node.forward.index)] = true;
  return out;
}

/// Only then a forward node can have made the same.
bool reads_forward(const Graph& graph, const std::vector<ValueId>& operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [&](ValueId v) { return graph.node(graph.value(v).producer).phase == Phase::forward; });
}

}  // namespace

Program merge_common_subexpressions(Program program, const PassContext&) {
  const Graph& graph = program.graph;
  std::vector<bool> keep(graph.nodes.size(), true);
  std::vector<ValueId> replacement(graph.values.size());
  const std::vector<bool> is_recomputed = recomputed_nodes(graph);
  std::unordered_set<Key, KeyHash> first;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (is_leaf(node)) continue;
    std::vector<ValueId> operands = node.operands;
    for (ValueId& v : operands)
      if (const ValueId r = replacement[static_cast<std::size_t>(v.index)]; r.is_valid()) v = r;
    const Phase phase = node.op->kind == OpKind::step ? node.phase : Phase::forward;
    Key key{&graph, id, std::move(operands), phase, false};
    if (is_backward(node.phase) && reads_forward(graph, key.operands)) {
      const auto twin = first.find(key);
      key.is_made_again = node.is_recomputed ||
                          (twin != first.end() && is_recomputed[static_cast<std::size_t>(twin->node.index)]);
    }
    const auto [it, is_new] = first.insert(std::move(key));
    if (is_new) continue;
    keep[static_cast<std::size_t>(id.index)] = false;
    for (std::size_t i = 0; i < node.results.size(); ++i)
      replacement[static_cast<std::size_t>(node.results[i].index)] = graph.node(it->node).results[i];
  }
  program.graph = rebuild(std::move(program.graph), kept(keep), replacement);
  return program;
}

}  // namespace shardwright
