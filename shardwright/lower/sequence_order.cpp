#include "shardwright/lower/sequence_order.h"

#include <algorithm>
#include <optional>
#include <string>

#include "shardwright/annotations/sequence_dims.h"
#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// The dim of `node` that goes round, and into how many parts.
struct Round {
  std::size_t loop = 0;
  int parts = 1;
};
std::optional<Round> round_of(const Graph& graph, const Node& node, const Rule& rule) {
  for (std::size_t l = 0; node.strategy && l < rule.loops.size(); ++l)
    if (rule.loops[l].kind == LoopKind::round && !node.strategy->loops[l].empty())
      return Round{l, graph.meshes[at(node.strategy->mesh)].count(node.strategy->loops[l])};
  return std::nullopt;
}

/// Whether operators on the way of a sequence compute the same of each element wherever it stands.
class Minding {
 public:
  explicit Minding(const Graph& graph) : graph_(graph), calls_(graph), dims_(sequence_dims(graph, calls_)) {}

  /// Of what goes round: 0 if nothing does, -1 if it goes differently, or sees what is behind it.
  int parts() const {
    int out = 0;
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::forward || node.op->kind != OpKind::compute) continue;
      const auto round = round_of(graph_, node, calls_.rule(id));
      if (!round) continue;
      if (!node.attributes.flag("causal") || (out > 0 && out != round->parts)) return -1;
      out = round->parts;
    }
    return out;
  }

  bool minds(std::int64_t blocks, OutputsOfTokens outputs) const {
    const int most = outputs == OutputsOfTokens::brought_into_place ? 1 : 0;
    const auto is_first_dim = [&](ValueId v) { return sequences_of(v) > 0 && dims_[at(v.index)][0]; };
    if (std::ranges::any_of(graph_.outputs,
                            [&](ValueId v) { return sequences_of(v) > most || is_first_dim(v); }))
      return true;  // micro-batches stand side by side along the first
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::forward) break;
      for (ValueId v : node.results)
        for (std::size_t d = 0; d < dims_[at(v.index)].size(); ++d)
          if (dims_[at(v.index)][d] && graph_.value(v).type.shape[d] % blocks) return true;
      if (node.op->kind == OpKind::compute && minds(id, node)) return true;
    }
    return false;
  }

 private:
  int sequences_of(ValueId v) const { return static_cast<int>(std::ranges::count(dims_[at(v.index)], true)); }

  bool minds(NodeId id, const Node& node) const {
    const Rule& rule = calls_.rule(id);
    if (round_of(graph_, node, rule)) return false;
    std::vector<bool> is_sequence(rule.loops.size(), false);
    bool is_any = false;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d) {
        if (!dims_[at(node.operands[i].index)][d]) continue;
        const auto& loops = rule.operands[i].dims[d];
        if (loops.size() != 1 || (!rule.operands[i].windows.empty() && rule.operands[i].windows[d].loop > 0))
          return true;
        is_sequence[at(loops[0])] = is_any = true;
      }
    if (!is_any) return false;
    if (node.op->reads_places && std::ranges::count(node.op->attributes, std::string("order")) == 0)
      return true;
    for (std::size_t l = 0; l < is_sequence.size(); ++l)
      if (is_sequence[l] && (rule.loops[l].kind != LoopKind::plain && rule.loops[l].kind != LoopKind::sum))
        return true;
    return reads_another(node, rule, is_sequence);
  }

  /// A table with a row for each place, and the like.
  bool reads_another(const Node& node, const Rule& rule, const std::vector<bool>& is_sequence) const {
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d)
        for (int loop : rule.operands[i].dims[d])
          if (is_sequence[at(loop)] && rule.loops[at(loop)].size > 1 && !dims_[at(node.operands[i].index)][d])
            return true;
    return false;
  }

  const Graph& graph_;
  Calls calls_;
  SequenceDims dims_;
};

/// What goes round is split over the axes of another dim, which nothing else is.
bool has_some_round(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) {
    Axes seen;
    for (std::size_t l = 0; node.strategy && l < node.strategy->loops.size(); ++l)
      for (int a : node.strategy->loops[l]) {
        if (seen.contains(a)) return true;
        seen.push_back(a);
      }
    return false;
  });
}

}  // namespace

std::int64_t sequence_order(std::span<const Graph* const> stages, OutputsOfTokens outputs) {
  if (std::ranges::none_of(stages, [](const Graph* graph) { return has_some_round(*graph); })) return 0;
  std::vector<Minding> all;
  int parts = 0;
  for (const Graph* graph : stages) {
    const Minding& one = all.emplace_back(*graph);
    const int own = one.parts();
    if (own < 0 || (own > 0 && parts > 0 && own != parts)) return 0;
    parts = std::max(parts, own);
  }
  const std::int64_t blocks = 2 * parts;
  if (parts == 0 || std::ranges::any_of(all, [&](const Minding& one) { return one.minds(blocks, outputs); }))
    return 0;
  return blocks;
}

std::vector<std::vector<bool>> dims_in_order(const Graph& graph) {
  return sequence_dims(graph, Calls(graph));
}

}  // namespace shardwright
