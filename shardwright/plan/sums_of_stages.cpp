#include "shardwright/plan/sums_of_stages.h"

#include <map>
#include <utility>
#include <vector>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/ops/calls.h"

namespace shardwright {
namespace {

/// The same sum of `addends`, as a value of its own.
ValueId add_sum(Graph& graph, const Node& whole, std::vector<ValueId> addends, int stage) {
  Node part = whole;
  const ValueId made{static_cast<int>(graph.values.size())};
  Value value = graph.value(whole.results.front());
  value.name += fmt::format(".of_stage_{}", stage);
  value.producer = {static_cast<int>(graph.nodes.size())};
  part.operands = std::move(addends);
  part.results = {made};
  graph.values.push_back(std::move(value));
  graph.nodes.push_back(std::move(part));
  return made;
}

/// Lets the sum `id` read one value of every other stage. Returns the nodes that make them.
std::vector<NodeId> sum_by_stages(Graph& graph, NodeId id, std::span<const int> stage_of) {
  const Node whole = graph.node(id);
  std::map<int, std::vector<ValueId>> addends;  // by stage
  const auto stage = [&](ValueId v) { return stage_of[at(graph.value(v).producer.index)]; };
  for (ValueId v : whole.operands) addends[stage(v)].push_back(v);
  std::vector<NodeId> made;
  std::vector<ValueId> operands;
  for (ValueId v : whole.operands) {
    const int of = stage(v);
    std::vector<ValueId>& own = addends[of];
    const bool is_summed = own.size() != 1 && of >= 0 && of != stage_of[at(id.index)];
    if (!is_summed) {
      operands.push_back(v);
    } else if (!own.empty()) {  // the first of them
      made.push_back({static_cast<int>(graph.nodes.size())});
      operands.push_back(add_sum(graph, whole, std::exchange(own, {}), of));
    }
  }
  graph.node(id).operands = std::move(operands);
  return made;
}

}  // namespace

Graph with_sums_of_stages(Graph graph, std::span<const int> stage_of) {
  std::vector<NodeId> order;
  for (std::size_t n = 0; n < stage_of.size(); ++n) {
    const NodeId id{static_cast<int>(n)};
    const bool is_sum = graph.node(id).phase == Phase::update && graph.node(id).op == &sum_op();
    if (is_sum)
      for (NodeId made : sum_by_stages(graph, id, stage_of)) order.push_back(made);
    order.push_back(id);
  }
  if (order.size() == stage_of.size()) return graph;
  const std::vector<ValueId> same(graph.values.size());
  return rebuild(std::move(graph), order, same);
}

}  // namespace shardwright
