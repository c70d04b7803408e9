#include "shardwright/search/automatic/network.h"

#include <algorithm>

#include "shardwright/graph/op.h"
#include "shardwright/plan/stages.h"
#include "shardwright/search/planning/stage_cut.h"
#include "shardwright/search/recursive/fold.h"

namespace shardwright::search {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Of a network without repeated layers.
constexpr int most_pieces = 32;

}  // namespace

Network::Network(Graph graph, const Cluster& cluster, int micro_batches) : graph_(std::move(graph)) {
  find_pieces(cluster);
  cut_parts(micro_batches);
}

void Network::find_pieces(const Cluster& cluster) {
  const Calls calls(graph_);
  // Per node: the kind of the piece that begins with it, or -1; and whether a run of layers ends with it.
  std::vector<int> begins(graph_.nodes.size(), -1);
  std::vector<bool> is_end(graph_.nodes.size(), false);
  int kind = 0;
  for (const auto& run : repeated_layers(graph_, calls)) {
    for (const std::vector<NodeId>& layer : run) begins[at(layer.front().index)] = kind;
    is_end[at(run.back().back().index)] = true;
    ++kind;
  }
  if (kind == 0)
    for (NodeId id : cut_places(graph_, calls, cluster, most_pieces)) begins[at(id.index)] = kind++;
  piece_of_.assign(graph_.nodes.size(), 0);
  bool is_open = false;  // the last piece goes on
  for (NodeId id : graph_.node_ids()) {
    const Node& node = graph_.node(id);
    if (node.phase != Phase::forward || node.op->kind != OpKind::compute) continue;
    const int begun = begins[at(id.index)];
    if (begun >= 0 || !is_open) pieces_.push_back(begun >= 0 ? begun : kind++);
    is_open = !is_end[at(id.index)];
    piece_of_[at(id.index)] = static_cast<int>(pieces_.size()) - 1;
  }
  // Kinds are numbered as they come.
  std::vector<int> number(at(kind), -1);
  int numbered = 0;
  for (int& k : pieces_) {
    if (number[at(k)] < 0) number[at(k)] = numbered++;
    k = number[at(k)];
  }
}

void Network::cut_parts(int micro_batches) {
  const int count = static_cast<int>(pieces_.size());
  const int kinds = 1 + *std::ranges::max_element(pieces_);
  // The second of its kind, if there is one: the first may see what is before the layers.
  std::vector<int> example(at(kinds), -1), seen(at(kinds), 0);
  for (int p = 0; p < count; ++p)
    if (seen[at(pieces_[at(p)])]++ < 2) example[at(pieces_[at(p)])] = p;
  std::vector<int> part_of_piece;
  std::vector<int> part_of_kind(at(kinds), 0);
  bool was_example = true;
  int parts = 0;
  for (int p = 0; p < count; ++p) {
    const bool is_example = example[at(pieces_[at(p)])] == p;
    if (p == 0 || is_example || was_example) ++parts;
    was_example = is_example;
    part_of_piece.push_back(parts - 1);
    if (is_example) part_of_kind[at(pieces_[at(p)])] = parts - 1;
  }
  std::vector<int> part_of(graph_.nodes.size(), 0);
  for (std::size_t n = 0; n < part_of.size(); ++n) part_of[n] = part_of_piece[at(piece_of_[n])];
  StagedGraph cut = cut_into_stages(graph_, part_of, parts, std::min(micro_batches, 2));
  for (int k = 0; k < kinds; ++k) {
    parts_.push_back(std::move(cut.stages[at(part_of_kind[at(k)])]));
    calls_.emplace_back(parts_.back());
  }
}

std::vector<int> Network::stage_of(const std::vector<int>& first) const {
  std::vector<int> stage_of_piece(pieces_.size(), 0);
  for (std::size_t s = 1; s < first.size(); ++s)
    for (std::size_t p = at(first[s]); p < pieces_.size(); ++p) stage_of_piece[p] = static_cast<int>(s);
  std::vector<int> out;
  for (int piece : piece_of_) out.push_back(stage_of_piece[at(piece)]);
  return out;
}

}  // namespace shardwright::search
