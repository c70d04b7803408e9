#include "shardwright/lower/sequence_order.h"

#include <algorithm>
#include <optional>
#include <string>

#include "shardwright/annotations/sequence_dims.h"
#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/rule_dims.h"

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

/// Per value of the forward: it is made of inputs and constants alone, before anything goes round.
std::vector<bool> made_of_inputs(const Graph& graph, const Calls& calls) {
  std::vector<bool> out(graph.values.size(), false);
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward) break;
    const OpKind kind = node.op->kind;
    const bool is_work =
        kind == OpKind::step || (kind == OpKind::compute && !round_of(graph, node, calls.rule(id)));
    const bool is_made =
        is_work && std::ranges::all_of(node.operands, [&](ValueId v) { return out[at(v.index)]; });
    for (ValueId v : node.results) out[at(v.index)] = kind == OpKind::input || is_made;
  }
  return out;
}

/// The dim of operand `i` that `node` reads as the sequence, of which its result has as many places; -1 if there is none.
int dim_read_as_places(const Node& node, std::size_t i, const Rule& rule, const SequenceDims& dims) {
  const RuleTensor &operand = rule.operands[i], &result = rule.results.front();
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    const std::vector<int>& loops = operand.dims[d];
    if (loops.size() != 1 || rule.loops[at(loops[0])].kind != LoopKind::plain) continue;
    for (std::size_t r = 0; r < result.dims.size(); ++r)
      if (result.dims[r] == loops && dims[at(node.results.front().index)][r]) return static_cast<int>(d);
  }
  return -1;
}

/// Marks the dim of each parameter that all its readers of the forward read as the sequence: a table with a row for each place. Not
/// where what is its gradient is that of something else, too.
void mark_tables(SequenceDims& dims, const Graph& graph, const Calls& calls) {
  constexpr int unread = -2, none = -1;
  std::vector<int> read(graph.values.size(), unread);
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward) break;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      int& known = read[at(node.operands[i].index)];
      const int d =
          node.op->kind == OpKind::compute ? dim_read_as_places(node, i, calls.rule(id), dims) : none;
      known = known == unread || known == d ? d : none;
    }
  }
  for (const Value& v : graph.values)
    for (ValueId of : v.gradient_of)
      if (v.gradient_of.size() > 1) read[at(of.index)] = none;
  for (const Node& node : graph.nodes) {
    const ValueId v = node.results.empty() ? ValueId{} : node.results.front();
    if (node.op->kind == OpKind::parameter && read[at(v.index)] >= 0)
      dims[at(v.index)][at(read[at(v.index)])] = true;
  }
}

/// The dims that come of the sequence, and of what is made of inputs alone also those that are read as such: a mask of windows,
/// whose places are constants.
SequenceDims dims_of(const Graph& graph, const Calls& calls) {
  SequenceDims out = sequence_dims(graph, calls);
  const std::vector<bool> of_inputs = made_of_inputs(graph, calls);
  for (int n = static_cast<int>(graph.nodes.size()); n-- > 0;) {
    const Node& node = graph.nodes[at(n)];
    if (node.phase != Phase::forward || node.op->kind != OpKind::compute) continue;
    const Rule& rule = calls.rule(NodeId{n});
    std::vector<bool> loops(rule.loops.size(), false);
    const auto mark = [&](const std::vector<RuleTensor>& tensors, const std::vector<ValueId>& values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        for (std::size_t d = 0; d < tensors[i].dims.size(); ++d)
          if (out[at(values[i].index)][d] && !tensors[i].dims[d].empty())
            loops[at(tensors[i].dims[d][0])] = true;
    };
    mark(rule.operands, node.operands);
    mark(rule.results, node.results);
    if (const auto round = round_of(graph, node, rule))
      for (std::size_t i = 0; i < node.operands.size(); ++i)
        if (const int keys = keys_of_mask(rule, i, static_cast<int>(round->loop)); keys >= 0)
          loops[at(keys)] = true;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d)
        if (of_inputs[at(node.operands[i].index)] && !rule.operands[i].dims[d].empty() &&
            loops[at(rule.operands[i].dims[d][0])])
          out[at(node.operands[i].index)][d] = true;
  }
  mark_tables(out, graph, calls);
  return out;
}

/// Whether operators on the way of a sequence compute the same of each element wherever it stands.
class Minding {
 public:
  explicit Minding(const Graph& graph) : graph_(graph), calls_(graph), dims_(dims_of(graph, calls_)) {}

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

  /// Per node: it asks for places, or makes what such a node reads, and is made of inputs alone, so that it can be done while
  /// these still stand as they are: documents that are counted along positions.
  std::vector<bool> in_place() const {
    const std::vector<bool> of_inputs = made_of_inputs(graph_, calls_);
    std::vector<bool> out(graph_.nodes.size(), false);
    std::vector<bool> is_asked(graph_.values.size(), false);  // by one of them
    for (int end = static_cast<int>(graph_.nodes.size()); end-- > 0;) {
      const NodeId id{end};
      const Node& node = graph_.node(id);
      if (node.phase != Phase::forward) continue;
      if (node.op->kind != OpKind::compute && node.op->kind != OpKind::step) continue;
      const bool is_made = of_inputs[at(node.results.front().index)];
      const bool is_read =
          std::ranges::any_of(node.results, [&](ValueId v) { return is_asked[at(v.index)]; });
      const bool asks = node.op->kind == OpKind::compute && minds(id, node);
      out[at(end)] = is_made && (is_read || asks);
      for (ValueId v : node.operands) is_asked[at(v.index)] = is_asked[at(v.index)] || out[at(end)];
    }
    return out;
  }

  bool minds(std::int64_t blocks, OutputsOfTokens outputs) const {
    const int most = outputs == OutputsOfTokens::brought_into_place ? 1 : 0;
    const auto is_first_dim = [&](ValueId v) { return sequences_of(v) > 0 && dims_[at(v.index)][0]; };
    if (std::ranges::any_of(graph_.outputs,
                            [&](ValueId v) { return sequences_of(v) > most || is_first_dim(v); }))
      return true;  // micro-batches stand side by side along the first
    return minds(blocks, in_place());
  }

  /// But for the nodes that are done in place.
  bool minds(std::int64_t blocks, const std::vector<bool>& in_place) const {
    const auto has_blocks = [&](ValueId v) {
      for (std::size_t d = 0; d < dims_[at(v.index)].size(); ++d)
        if (dims_[at(v.index)][d] && graph_.value(v).type.shape[d] % blocks) return false;
      return true;
    };
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::forward) break;
      if (in_place[at(id.index)]) continue;
      if (!std::ranges::all_of(node.operands, has_blocks) || !std::ranges::all_of(node.results, has_blocks))
        return true;
      if (node.op->kind == OpKind::compute && minds(id, node)) return true;
    }
    return false;
  }

 private:
  int sequences_of(ValueId v) const { return static_cast<int>(std::ranges::count(dims_[at(v.index)], true)); }

  bool minds(NodeId id, const Node& node) const {
    const Rule& rule = calls_.rule(id);
    if (const auto round = round_of(graph_, node, rule)) return has_other_mask(node, rule, round->loop);
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

  /// Of what goes round: a mask of queries and keys that does not come of the sequence, and so stands as it is.
  bool has_other_mask(const Node& node, const Rule& rule, std::size_t round) const {
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (keys_of_mask(rule, i, static_cast<int>(round)) >= 0 && sequences_of(node.operands[i]) < 2)
        return true;
    return false;
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

std::vector<bool> nodes_in_place(const Graph& graph) { return Minding(graph).in_place(); }

std::vector<std::vector<bool>> dims_in_order(const Graph& graph) { return dims_of(graph, Calls(graph)); }

}  // namespace shardwright
