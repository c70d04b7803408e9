// Who reads a value in the forward, and how they all want it.
#pragma once

#include <optional>
#include <vector>

#include "shardwright/graph/calls.h"
#include "shardwright/layout/strategy.h"

namespace shardwright {

class ForwardReaders {
 public:
  explicit ForwardReaders(const Graph& graph);

  /// How all readers of `v` want it by their strategies (per node), where they agree.
  std::optional<Layout> wanted(ValueId v, const Calls& calls,
                               const std::vector<std::optional<Strategy>>& strategies) const;

 private:
  struct OperandOf {
    NodeId reader;
    std::size_t operand;
  };
  std::vector<std::vector<OperandOf>> readers_;  // per value
};

}  // namespace shardwright
