// The step of one micro-batch as a row of pieces, each of which a stage has whole: repeated layers, and what is between.
//
// Pieces of one kind are alike, so that one of them stands for all: what a stage takes is the sum over its pieces.
#pragma once

#include <algorithm>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"
#include "shardwright/plan/constraints.h"
#include "shardwright/plan/recompute.h"

namespace shardwright::automatic {

/// Which forward operators are a piece. Found once, and kept for every size of a micro-batch.
struct Row {
  std::vector<const OpDef*> operators;  // of the forward, in order
  std::vector<int> piece_of;            // of each operator
  std::vector<int> kinds;               // of each piece
  std::vector<int> alike;               // the same, whatever is said of operators
  std::vector<int> crossing = {};       // how many values of the forward cross in front of each piece

  int size() const { return static_cast<int>(kinds.size()); }
  int kind_count() const { return kinds.empty() ? 0 : 1 + *std::ranges::max_element(kinds); }
  /// It is one of several that are alike.
  bool is_layer(int kind) const {
    const auto piece = std::ranges::find(kinds, kind) - kinds.begin();
    return std::ranges::count(alike, alike[static_cast<std::size_t>(piece)]) > 1;
  }
  bool operator==(const Row&) const = default;
};

/// Repeated layers and what is between; without such layers what lies between places where few bytes cross.
/// What `fixed` says of operators tells layers apart.
Row row_of(const Graph& graph, const Cluster& cluster, const Constraints& fixed = {});
/// Pieces of which `least`, the smallest part of the batch, has no operator are part of the next one, or of the last.
Row without_missing(Row row, const Graph& least);
/// With what crosses between its pieces. Pre: they are those of `graph`.
Row with_crossings(Row row, const Graph& graph);
/// All of it one piece.
Row whole_row(Row row);

class Network {
 public:
  /// `graph`: a network or train step of one micro-batch, for parts that add up `summed` of them.
  /// Throws: Error if its operators are not those of `row`, which must outlive it.
  Network(const Graph& graph, const Row& row, int summed);

  const Row& row() const { return row_; }
  struct Part {
    Graph graph;
    Calls calls;
  };
  /// A piece of that kind, as a graph of its own.
  const Part& piece(int kind) const {
    return parts_[static_cast<std::size_t>(piece_of_kind_[static_cast<std::size_t>(kind)])];
  }
  /// Two in a row; null if there are too few.
  const Part* pair(int kind) const {
    const int part = pair_of_kind_[static_cast<std::size_t>(kind)];
    return part < 0 ? nullptr : &parts_[static_cast<std::size_t>(part)];
  }

 private:
  const Row& row_;
  std::vector<Part> parts_;
  std::vector<int> piece_of_kind_, pair_of_kind_;  // parts
};

/// Per node of `graph` its stage, if stages begin with the pieces `first`.
std::vector<int> stage_of(const Graph& graph, const Row& row, const std::vector<int>& first);

/// The layers among the pieces that `again` counts in parts that begin with the pieces `first`: modules to be computed again.
std::vector<RecomputedModule> layers_again(const Graph& graph, const Row& row, const std::vector<int>& first,
                                           const std::vector<int>& again, const RecomputeOptions& options);

}  // namespace shardwright::automatic
