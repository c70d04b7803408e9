// What stands behind what in a program, as far as it matters to the order of its collectives: which of them move
// parameters, how many others they wait for, and from where on they may start.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

class Dependences {
 public:
  /// Of a program, which outlives this.
  explicit Dependences(const Graph& graph);

  const std::vector<Fusion>& fusions() const { return fusions_; }
  /// By number.
  int fusion_of(NodeId id) const { return fusion_of_[index(id)]; }
  /// The first fusion of a phase, or of those behind it.
  int first_of(Phase phase) const;

  /// Whose gradient it sums or whose weight it gathers; invalid: another node.
  ValueId parameter(NodeId id) const { return parameters_[index(id)]; }
  bool is_gather(NodeId id) const;
  bool is_gradients_sum(NodeId id) const { return parameter(id).is_valid() && !is_gather(id); }
  /// A sum in the backward that leaves each rank a share of a gradient, or sums such shares, where the backward itself
  /// does no more with it than to add it up.
  bool is_reduced_early(NodeId id) const { return is_reduced_early_[index(id)]; }
  /// It may run as one with others.
  bool may_join(NodeId id) const { return parameter(id).is_valid() || is_gather(id); }

  /// On the longest way to it: of one that is reduced early others that are, else collectives that may join.
  int depth(NodeId id) const { return is_reduced_early(id) ? early_depths_[index(id)] : depths_[index(id)]; }
  /// Which receive of the update, from 1 on, comes last above it.
  int round(NodeId id) const { return rounds_[index(id)]; }
  /// Receives of the update.
  int rounds() const { return receives_; }
  /// The last fusion before the update that it waits for, and 1.
  int readiness(NodeId id) const { return readiness_[index(id)]; }

 private:
  static std::size_t index(NodeId id) { return static_cast<std::size_t>(id.index); }
  NodeId producer(ValueId v) const { return graph_.value(v).producer; }
  void find_early_sums();
  void measure(const Fusion& fusion);
  int readiness_behind(NodeId from) const;

  const Graph& graph_;
  std::vector<Fusion> fusions_;
  std::vector<ValueId> parameters_;  // by node, like all below
  std::vector<int> fusion_of_;
  std::vector<bool> is_reduced_early_;
  std::vector<int> depths_, early_depths_, rounds_, readiness_;
  std::vector<NodeId> made_;  // of leaves that are updated: what makes the new value
  int receives_ = 0;
};

}  // namespace shardwright
