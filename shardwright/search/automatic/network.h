// The step of one micro-batch as a row of pieces, each of which a stage has whole: repeated layers, and what is between.
//
// Pieces of one kind are alike, so that one of them stands for all: what a stage takes is the sum over its pieces.
#pragma once

#include <algorithm>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"

namespace shardwright::search {

class Network {
 public:
  /// `graph`: a network or train step of one of `micro_batches`.
  Network(Graph graph, const Cluster& cluster, int micro_batches);

  const Graph& graph() const { return graph_; }
  /// Per piece, in order, its kind.
  const std::vector<int>& pieces() const { return pieces_; }
  int kinds() const { return static_cast<int>(parts_.size()); }
  /// A piece of that kind, as a graph of its own.
  const Graph& part(int kind) const { return parts_[static_cast<std::size_t>(kind)]; }
  /// It is one of several that are alike.
  bool is_layer(int kind) const { return std::ranges::count(pieces_, kind) > 1; }
  const Calls& calls(int kind) const { return calls_[static_cast<std::size_t>(kind)]; }

  /// Per node of the graph its stage, if stages begin with the pieces `first`.
  std::vector<int> stage_of(const std::vector<int>& first) const;

 private:
  void find_pieces(const Cluster& cluster);
  void cut_parts(int micro_batches);

  Graph graph_;
  std::vector<int> pieces_;
  std::vector<int> piece_of_;  // per node; of forward operators
  std::vector<Graph> parts_;
  std::vector<Calls> calls_;
};

}  // namespace shardwright::search
