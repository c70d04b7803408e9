// What stays together where a dim is cut unevenly: the features of a head in front of `b (h d) -> b h d`, heads of queries that
// share one of keys. So 32 heads of 128 lie on 6 devices as 5, 5, 6, 5, 5 and 6, and what makes and reads their 4,096 features
// is cut at the same places. Where there are more devices than heads of keys, heads of queries are shared out among those that
// have one: 28 heads, of which 7 share one of 4, lie on 8 devices as 3, 4, 3, 4, ..
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
  /// `has_equal_parts`: then no axes have a grain. Cost: O(nodes).
  Grains(const Graph& graph, const Calls& calls, bool has_equal_parts);

  /// `axes` as they cut `loop` of `node`: with a grain where they do not divide its runs and are not more than these, or cut it by
  /// shares.
  Axes fit(const Axes& axes, const Node& node, const Rule& rule, int loop, const Mesh& mesh) const;

 private:
  /// Per loop dim of a rule.
  using Runs = std::vector<std::int64_t>;
  /// How many elements stay together, per value and dim.
  struct Table {
    std::vector<Runs> grains;
    bool has_groups = false;  // what shares something (heads one of keys) stays together, too
  };
  void fill(Table& table, const Calls& calls) const;
  Runs runs_of(const Table& table, const std::vector<RuleTensor>& tensors, const std::vector<ValueId>& values,
               const Rule& rule) const;
  void tell(Table& table, const std::vector<RuleTensor>& tensors, const std::vector<ValueId>& values,
            const Rule& rule, const Runs& runs) const;
  std::int64_t grain_of(const Table& table, const Node& node, const Rule& rule, int loop) const;

  const Graph& graph_;
  bool has_equal_parts_;
  Table groups_{{}, true}, alone_{{}, false};
};

}  // namespace shardwright
