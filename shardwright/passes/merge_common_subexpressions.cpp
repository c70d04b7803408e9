// Two nodes are the same if operator, operands (after merging), attributes, strategy and result layouts are.
// Steps are merged only within a phase: a parameter that is gathered again for the backward is gathered again
// on purpose. So is a recomputed node, which is never merged into the forward; a backward node that makes the same
// as a forward node that is recomputed is merged with the recomputed one, or the forward's result would be kept.

#include <algorithm>
#include <map>
#include <tuple>

#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

/// The last: whether the backward is to make again what the forward has made.
using Key = std::tuple<const OpDef*, std::vector<ValueId>, std::string, std::optional<Strategy>, Phase,
                       std::string, bool>;

std::string layouts_text(const Graph& graph, const Node& node) {
  std::string out;
  for (ValueId v : node.results) {
    const Layout& l = *graph.value(v).layout;
    out += fmt::format("{}@{};", to_text(l, graph.meshes[static_cast<std::size_t>(l.mesh)]), l.mesh);
  }
  return out;
}

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
  std::map<Key, NodeId> first;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::compute && node.op->kind != OpKind::step) continue;
    std::vector<ValueId> operands = node.operands;
    for (ValueId& v : operands)
      if (const ValueId r = replacement[static_cast<std::size_t>(v.index)]; r.is_valid()) v = r;
    const Phase phase = node.op->kind == OpKind::step ? node.phase : Phase::forward;
    Key key{node.op, operands, to_text(node.attributes), node.strategy, phase, layouts_text(graph, node),
            false};
    if (node.phase == Phase::backward && reads_forward(graph, operands)) {
      const auto twin = first.find(key);
      std::get<bool>(key) =
          node.is_recomputed ||
          (twin != first.end() && is_recomputed[static_cast<std::size_t>(twin->second.index)]);
    }
    const auto [it, is_new] = first.emplace(std::move(key), id);
    if (is_new) continue;
    keep[static_cast<std::size_t>(id.index)] = false;
    for (std::size_t i = 0; i < node.results.size(); ++i)
      replacement[static_cast<std::size_t>(node.results[i].index)] = graph.node(it->second).results[i];
  }
  program.graph = rebuild(graph, kept(keep), replacement);
  return program;
}

}  // namespace shardwright
