// Two nodes are the same if operator, operands (after merging), attributes, strategy and result layouts are.
// Steps are merged only within a phase: a parameter that is gathered again for the backward is gathered again
// on purpose.

#include <map>
#include <tuple>

#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

using Key =
    std::tuple<const OpDef*, std::vector<ValueId>, std::string, std::optional<Strategy>, Phase, std::string>;

std::string layouts_text(const Graph& graph, const Node& node) {
  std::string out;
  for (ValueId v : node.results) {
    const Layout& l = *graph.value(v).layout;
    out += fmt::format("{}@{};", to_text(l, graph.meshes[static_cast<std::size_t>(l.mesh)]), l.mesh);
  }
  return out;
}

}  // namespace

Program merge_common_subexpressions(Program program, const PassContext&) {
  const Graph& graph = program.graph;
  std::vector<bool> keep(graph.nodes.size(), true);
  std::vector<ValueId> replacement(graph.values.size());
  std::map<Key, NodeId> first;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::compute && node.op->kind != OpKind::step) continue;
    std::vector<ValueId> operands = node.operands;
    for (ValueId& v : operands)
      if (const ValueId r = replacement[static_cast<std::size_t>(v.index)]; r.is_valid()) v = r;
    const Phase phase = node.op->kind == OpKind::step ? node.phase : Phase::forward;
    const auto [it, is_new] = first.emplace(
        Key{node.op, operands, to_text(node.attributes), node.strategy, phase, layouts_text(graph, node)},
        id);
    if (is_new) continue;
    keep[static_cast<std::size_t>(id.index)] = false;
    for (std::size_t i = 0; i < node.results.size(); ++i)
      replacement[static_cast<std::size_t>(node.results[i].index)] = graph.node(it->second).results[i];
  }
  program.graph = rebuild(graph, kept(keep), replacement);
  return program;
}

}  // namespace shardwright
