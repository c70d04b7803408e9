// How many rows a rank's experts are given in a step: what a router that favours some makes of plans that share them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/backend/backend.h"

namespace shardwright {

/// By call of a routed operator in the forward, of each stage and micro-batch, in an order that is the same on all ranks.
class RoutedCounts {
 public:
  explicit RoutedCounts(const Pipeline& pipeline);

  /// Of the last step, of this rank.
  const std::vector<std::int64_t>& counts() const { return counts_; }
  /// By call the ranks of its stage.
  const std::vector<std::int64_t>& ranks() const { return ranks_; }

  /// `kernel`, the `call` of a node on this rank, and if that routes rows, what counts them behind it. This and `call` outlive
  /// it. Ids have to be in memory of the host.
  PreparedKernel counted(PreparedKernel kernel, int stage, NodeId node, const LocalCall& call);

 private:
  const Pipeline& pipeline_;
  std::map<std::pair<int, NodeId>, std::size_t>
      first_;  // by stage and node: the call of the first micro-batch
  std::vector<std::int64_t> counts_, ranks_;
  std::vector<std::size_t> next_;  // by the first call of a node: that of the next one, whatever its lane
};

/// How many times the mean the busiest rank has: `most` and `all` are, of the counts of all ranks, by call the largest and the sum.
/// Nothing where no rows were given to anybody.
std::optional<double> imbalance_of(std::span<const std::int64_t> most, std::span<const std::int64_t> all,
                                   std::span<const std::int64_t> ranks);

}  // namespace shardwright
