// The groups in which the ranks of a pipeline communicate, as lowering derives them, each written down once.
//
// All members of a group have the same one, so one of them is asked for all: a table of a step costs as many pieces as
// there are ranks, not their square.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/lower/step_transfers.h"

namespace shardwright {

class RankGroups {
 public:
  explicit RankGroups(const Pipeline& pipeline);

  /// The same for the same ranks, ascending.
  int number_of(const std::vector<int>& group);
  const std::vector<int>& ranks(int number) const { return *groups_[static_cast<std::size_t>(number)]; }

  /// By rank of the pipeline the group in which it takes part in such a transfer; -1 if it does not.
  const std::vector<int>& table(const PreparedTransfer& like);
  /// Such a transfer on another rank; nothing if that has no part in it.
  std::optional<PreparedTransfer> transfer(const PreparedTransfer& like, int rank);
  /// The steps of a stage on one of its ranks; of those that are the same transfer, the first.
  std::vector<PreparedTransfer> different_steps(int stage);

 private:
  Fusion fusion(int stage, NodeId begin) const;

  const Pipeline& pipeline_;
  TransfersOfRanks transfers_;
  std::vector<std::map<NodeId, Fusion>> fusions_;  // by stage
  std::map<std::vector<int>, int> numbers_;
  std::vector<const std::vector<int>*> groups_;
  std::map<const Transfer*, std::vector<int>> steps_;  // by the transfer of the stage's first rank
  std::map<int, std::vector<int>> crossings_;
};

}  // namespace shardwright
