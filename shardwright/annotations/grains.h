// What stays together where a dim is cut unevenly: the features of a head in front of `b (h d) -> b h d`, heads of queries that
// share one of keys. So 32 heads of 128 lie on 6 devices as 5, 5, 6, 5, 5 and 6, and what makes and reads their 4,096 features
// is cut at the same places.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"
#include "shardwright/layout/strategy.h"

namespace shardwright {

/// Runs of elements, read off how operators of the forward join dims, take them apart and want them whole.
class Grains {
 public:
  /// Cost: O(nodes).
  Grains(const Graph& graph, const Calls& calls);

  /// `axes` as they cut `loop` of `node`: with a grain where they do not divide its runs and are not more than these.
  Axes fit(const Axes& axes, const Node& node, const Rule& rule, int loop, const Mesh& mesh) const;

 private:
  /// Per loop dim of a rule.
  using Runs = std::vector<std::int64_t>;
  Runs runs_of(const std::vector<RuleTensor>& tensors, const std::vector<ValueId>& values,
               const Rule& rule) const;
  void tell(const std::vector<RuleTensor>& tensors, const std::vector<ValueId>& values, const Rule& rule,
            const Runs& runs);
  std::int64_t grain_of(const Node& node, const Rule& rule, int loop) const;

  const Graph& graph_;
  std::vector<Runs> grains_;  // per value and dim
};

}  // namespace shardwright
