#include "shardwright/search/automatic/network.h"

#include <map>
#include <optional>

#include "shardwright/annotations/operator_splits.h"
#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/stages.h"
#include "shardwright/search/planning/stage_cut.h"
#include "shardwright/search/space/fold.h"

namespace shardwright::automatic {
namespace {

/// Of a network without repeated layers.
constexpr int most_pieces = 32;

/// Per node of `graph` the operator of the row that it is; -1 of what is no forward operator. Those of the row may be
/// missing: what repeats something for each sample has nothing to do for one. Nothing if there are others.
std::optional<std::vector<int>> operators_of(const Graph& graph, const Row& row) {
  std::vector<int> out(graph.nodes.size(), -1);
  auto next = row.operators.begin();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_forward_operator(graph.nodes[n])) continue;
    next = std::find(next, row.operators.end(), graph.nodes[n].op);
    if (next == row.operators.end()) return std::nullopt;
    out[n] = static_cast<int>(next++ - row.operators.begin());
  }
  return out;
}

/// Per node of `graph` what `of_piece` has for its piece; 0 of what is no forward operator.
std::vector<int> spread(const Graph& graph, const Row& row, const std::vector<int>& of_piece) {
  auto out = operators_of(graph, row);
  if (!out) throw error("with other micro-batches the model has other operators");
  for (int& i : *out) i = i < 0 ? 0 : of_piece[at(row.piece_of[at(i)])];
  return *std::move(out);
}

/// Kinds as they come: 0, 1, ...
std::vector<int> numbered(std::vector<int> kinds) {
  std::map<int, int> number;
  for (int& k : kinds) k = number.try_emplace(k, static_cast<int>(number.size())).first->second;
  return kinds;
}

/// The pieces that stand for their kind: the second of it, if there is one, as the first may see what is before the layers.
std::vector<int> examples_of(const Row& row) {
  std::vector<int> out(at(row.kind_count()), -1), seen(out.size(), 0);
  for (int p = 0; p < row.size(); ++p)
    if (seen[at(row.kinds[at(p)])]++ < 2) out[at(row.kinds[at(p)])] = p;
  return out;
}

/// Pieces of one kind of which `fixed` says different things are of several kinds.
void tell_apart(Row& row, const Graph& graph, const Constraints& fixed) {
  if (fixed.operators.empty()) return;
  const SaidOperators said(graph, fixed);
  std::vector<std::string> text(at(row.size()));  // of each piece
  auto piece = row.piece_of.begin();
  for (NodeId id : graph.node_ids())
    if (is_forward_operator(graph.node(id))) text[at(*piece++)] += said.text_of(id) + ";";
  std::map<std::pair<int, std::string>, int> kinds;
  for (int p = 0; p < row.size(); ++p)
    row.kinds[at(p)] =
        kinds.try_emplace({row.kinds[at(p)], text[at(p)]}, static_cast<int>(kinds.size())).first->second;
}

}  // namespace

Row row_of(const Graph& graph, const Cluster& cluster, const Constraints& fixed) {
  const Calls calls(graph);
  // Per node: the kind of the piece that begins with it, or -1; and whether a run of layers ends with it.
  std::vector<int> begins(graph.nodes.size(), -1);
  std::vector<bool> is_end(graph.nodes.size(), false);
  int kind = 0;
  for (const auto& run : space::repeated_layers(graph, calls)) {
    for (const std::vector<NodeId>& layer : run) begins[at(layer.front().index)] = kind;
    is_end[at(run.back().back().index)] = true;
    ++kind;
  }
  if (kind == 0)
    for (NodeId id : cut_places(graph, calls, cluster, most_pieces)) begins[at(id.index)] = kind++;
  Row out;
  bool is_open = false;  // the last piece goes on
  for (NodeId id : graph.node_ids()) {
    if (!is_forward_operator(graph.node(id))) continue;
    const int begun = begins[at(id.index)];
    if (begun >= 0 || !is_open) out.kinds.push_back(begun >= 0 ? begun : kind++);
    is_open = !is_end[at(id.index)];
    out.operators.push_back(graph.node(id).op);
    out.piece_of.push_back(out.size() - 1);
  }
  out.kinds = numbered(std::move(out.kinds));
  out.alike = out.kinds;
  tell_apart(out, graph, fixed);
  return out;
}

Row without_missing(Row row, const Graph& least) {
  const auto there = operators_of(least, row);
  if (!there) return row;
  std::vector<bool> is_there(at(row.size()));
  for (int i : *there)
    if (i >= 0) is_there[at(row.piece_of[at(i)])] = true;
  std::vector<int> kinds, alike, piece;  // the piece that each is part of
  for (int p = 0; p < row.size(); ++p) {
    piece.push_back(static_cast<int>(kinds.size()));
    if (is_there[at(p)]) kinds.push_back(row.kinds[at(p)]), alike.push_back(row.alike[at(p)]);
  }
  if (kinds.empty()) return row;
  for (int& p : row.piece_of) p = std::min(piece[at(p)], static_cast<int>(kinds.size()) - 1);
  row.kinds = numbered(std::move(kinds));
  row.alike = std::move(alike);
  return row;
}

Row with_crossings(Row row, const Graph& graph) {
  const std::optional<std::vector<int>> operators = operators_of(graph, row);
  if (!operators) return row;
  const auto piece = [&](NodeId id) {
    const int i = (*operators)[at(id.index)];
    return i < 0 ? -1 : row.piece_of[at(i)];
  };
  std::vector<int> last(graph.values.size(), -1);  // piece that reads it
  for (NodeId id : graph.node_ids())
    for (ValueId v : graph.node(id).operands) last[at(v.index)] = std::max(last[at(v.index)], piece(id));
  row.crossing.assign(at(row.size()), 0);
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (const int made = piece(graph.values[v].producer); made >= 0)
      for (int p = made + 1; p <= last[v]; ++p) ++row.crossing[at(p)];
  return row;
}

Row whole_row(Row row) {
  row.kinds = row.alike = row.crossing = {0};
  row.piece_of.assign(row.operators.size(), 0);
  return row;
}

Network::Network(const Graph& graph, const Row& row, int summed)
    : row_(row), piece_of_kind_(at(row.kind_count()), -1), pair_of_kind_(at(row.kind_count()), -1) {
  const std::vector<int> examples = examples_of(row);
  const auto has = [&](int piece, int kind) { return piece < row.size() && row.kinds[at(piece)] == kind; };
  std::vector<int> part_of_piece(at(row.size()), -1);
  int parts = 0;
  std::vector<int> wanted;
  const auto add = [&](int begin, int end) {
    for (int p = begin; p < end; ++p) part_of_piece[at(p)] = parts;
    return parts++;
  };
  const auto want = [&](int begin, int end) {
    wanted.push_back(add(begin, end));
    return static_cast<int>(wanted.size()) - 1;
  };
  for (int p = 0; p < row.size();) {
    const int kind = row.kinds[at(p)];
    int end = p + 1;
    if (examples[at(kind)] == p) {
      piece_of_kind_[at(kind)] = want(p, end);
      if (row.is_layer(kind) && has(p + 1, kind) && has(p + 2, kind)) {
        end = p + 3;
        pair_of_kind_[at(kind)] = want(p + 1, end);
      }
    } else {
      while (end < row.size() && examples[at(row.kinds[at(end)])] != end) ++end;
      add(p, end);
    }
    p = end;
  }
  StagedGraph cut = cut_into_stages(graph, spread(graph, row, part_of_piece), parts, summed, wanted);
  for (int p : wanted) {
    Graph& part = cut.stages[at(p)];
    Calls calls(part);
    parts_.push_back({std::move(part), std::move(calls)});
  }
}

std::vector<RecomputedModule> layers_again(const Graph& graph, const Row& row, const std::vector<int>& first,
                                           const std::vector<int>& again, const RecomputeOptions& options) {
  std::vector<int> number(at(row.size()), -1);  // of each piece
  std::vector<RecomputedModule> out;
  for (std::size_t part = 0; part < first.size(); ++part)
    for (int p = first[part]; p < first[part] + again[part]; ++p) {
      if (!row.is_layer(row.kinds[at(p)])) continue;
      number[at(p)] = static_cast<int>(out.size());
      out.push_back({.module = fmt::format("piece {}", p), .nodes = {}, .options = options});
    }
  const std::vector<int> module_of_node = spread(graph, row, number);
  for (NodeId id : graph.node_ids())
    if (const int m = module_of_node[at(id.index)]; is_forward_operator(graph.node(id)) && m >= 0)
      out[at(m)].nodes.push_back(graph.name_of(id));
  return by_name(std::move(out), graph);
}

std::vector<int> stage_of(const Graph& graph, const Row& row, const std::vector<int>& first) {
  std::vector<int> of_piece;
  int stage = 0;
  for (int p = 0; p < row.size(); ++p) {
    while (at(stage) + 1 < first.size() && first[at(stage) + 1] <= p) ++stage;
    of_piece.push_back(stage);
  }
  return spread(graph, row, of_piece);
}

}  // namespace shardwright::automatic
