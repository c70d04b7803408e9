#include "shardwright/annotations/low_rank.h"

#include <algorithm>

#include "shardwright/cost/compute.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/node_kinds.h"

namespace shardwright {
namespace {

class Pairs {
 public:
  Pairs(const Graph& graph, const Calls& calls) : graph_(graph), calls_(calls) {}

  LowRank run() {
    LowRank out;
    if (std::ranges::none_of(graph_.nodes, is_frozen)) return out;
    for (const Node& sum : graph_.nodes) {
      if (!is_forward_operator(sum) || sum.operands.size() != 2) continue;
      for (const int y : {0, 1}) add(out, sum.operands[y == 0 ? 0 : 1], sum.operands[y == 0 ? 1 : 0]);
    }
    return out;
  }

 private:
  NodeId producer(ValueId v) const { return graph_.value(v).producer; }
  bool streams(NodeId id) const { return work_kind(calls_.rule(id)) == WorkKind::streaming; }

  /// Behind what changes elements alone.
  NodeId maker(ValueId v) const {
    NodeId id = producer(v);
    while (is_forward_operator(graph_.node(id)) && graph_.node(id).operands.size() == 1 && streams(id))
      id = producer(graph_.node(id).operands[0]);
    return id;
  }

  /// A product of data with a parameter, which is frozen or not.
  bool is_product(NodeId id, bool of_frozen) const {
    const Node& node = graph_.node(id);
    if (!is_forward_operator(node) || node.operands.size() != 2 || streams(id)) return false;
    const Node& weight = graph_.node(producer(node.operands[1]));
    return weight.op->kind == OpKind::parameter && is_frozen(weight) == of_frozen;
  }

  void add(LowRank& out, ValueId y, ValueId h) const {
    const NodeId whole = maker(y), high = maker(h);
    if (!is_product(whole, true) || !is_product(high, false)) return;
    const NodeId low = maker(graph_.node(high).operands[0]);
    if (!is_product(low, false) || graph_.node(low).operands[0] != graph_.node(whole).operands[0]) return;
    out.low.insert(low);
    out.beside[high] = graph_.node(whole).results.front();
  }

  const Graph& graph_;
  const Calls& calls_;
};

}  // namespace

LowRank low_rank_of(const Graph& graph, const Calls& calls) { return Pairs(graph, calls).run(); }

}  // namespace shardwright
