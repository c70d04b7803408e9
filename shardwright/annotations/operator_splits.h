// Operators that constraints name (`layers.*.ffn.up.matmul={n: tp}`): they are split so in the stead of what degrees would
// make of them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/annotations/grains.h"
#include "shardwright/graph/graph.h"
#include "shardwright/layout/strategy.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// Throws: Error with near names if `constraints` name an operator that `graph` does not have, or a loop dim that the
/// operator does not have, or if two patterns say as much of one; or how experts are shared, of which it has none.
void check_operators(const Graph& graph, const Constraints& constraints);

/// What constraints say of the operators of a graph, a network or a part of it.
class SaidOperators {
 public:
  /// Both must outlive it. Throws: Error where two patterns say as much of one operator.
  SaidOperators(const Graph& graph, const Constraints& constraints);

  bool has(NodeId id) const { return !said_.empty() && said_[static_cast<std::size_t>(id.index)]; }
  /// `{n: tp}`; empty of an operator of which nothing is said.
  std::string text_of(NodeId id) const;
  struct Choice {
    Strategy strategy;
    std::string reason;
  };
  /// On `mesh`, of which an axis belongs to the degree whose name it begins with, at `grains` where it does not divide;
  /// nothing if nothing is said.
  /// Throws: Error where a loop dim does not exist or cannot be split so.
  std::optional<Choice> choice_of(NodeId id, const Rule& rule, const Mesh& mesh, const Grains& grains) const;

 private:
  const Graph& graph_;
  std::vector<const std::pair<const std::string, LoopSplit>*> said_;  // per node, or null; empty: of none
};

}  // namespace shardwright
