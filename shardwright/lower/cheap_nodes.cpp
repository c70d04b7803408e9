#include "shardwright/lower/cheap_nodes.h"

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

constexpr double most_read = 4;  // bytes for each that is dropped
constexpr double most_flops =
    256;  // of a product for each byte that it makes: devices do so many while they write it
constexpr int longest_chain = 12;  // of nodes that are computed again for one result

class Choice {
 public:
  explicit Choice(const CheapNodesQuestion& question)
      : q_(question),
        graph_(question.graph),
        is_read_(graph_.values.size()),
        is_chosen_(graph_.nodes.size()) {
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::forward)
        for (ValueId v : node.operands) is_read_[at(v.index)] = true;
      else if (node.op->kind == OpKind::compute && work_kind(q_.calls.rule(id)) != WorkKind::streaming)
        last_contraction_ = id;
    }
  }

  std::vector<bool> run() {
    for (NodeId id : graph_.node_ids())
      if (is_cheap(id) && is_worth(id)) choose(id);
    return std::move(is_chosen_);
  }

 private:
  double bytes(ValueId v) const { return q_.bytes[at(v.index)]; }
  NodeId producer(ValueId v) const { return graph_.value(v).producer; }
  std::set<ValueId> operands(NodeId id) const {
    const auto& all = graph_.node(id).operands;
    return {all.begin(), all.end()};
  }

  /// What stands behind the last contraction is read again at once.
  bool is_cheap(NodeId id) const {
    if (!q_.is_open[at(id.index)] || !(id < last_contraction_)) return false;
    const Rule& rule = q_.calls.rule(id);
    return work_kind(rule) == WorkKind::streaming || makes_much(graph_.node(id), rule);
  }

  /// A product of activations that makes far more than it reads: attention's scores.
  bool makes_much(const Node& node, const Rule& rule) const {
    double made = 0;
    for (ValueId v : node.results) made += static_cast<double>(graph_.value(v).type.bytes());
    const bool reads_weights = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId v) {
      return graph_.node(producer(v)).op->kind == OpKind::parameter;
    });
    double read = 0;
    for (ValueId v : node.operands) read += static_cast<double>(graph_.value(v).type.bytes());
    return !reads_weights && read < made && flops_of(*node.op, rule) <= most_flops * made;
  }

  /// Kept whatever is chosen from here on, or computed again.
  bool is_free(ValueId v) const {
    return graph_.node(producer(v)).op->kind != OpKind::compute || q_.is_kept[at(v.index)] ||
           is_read_[at(v.index)] || is_chosen_[at(producer(v).index)];
  }

  double price(ValueId v, int depth) const {
    if (is_free(v)) return 0;
    if (!is_cheap(producer(v)) || depth == longest_chain) return bytes(v);
    return std::min(bytes(v), price_of_operands(producer(v), depth + 1));
  }
  double price_of_operands(NodeId id, int depth) const {
    double sum = 0;
    for (ValueId v : operands(id)) sum += price(v, depth);
    return sum;
  }

  bool is_worth(NodeId id) const {
    double dropped = 0, read = 0;
    for (ValueId v : graph_.node(id).results)
      if (is_read_[at(v.index)] && !q_.is_kept[at(v.index)]) dropped += bytes(v);
    for (ValueId v : operands(id)) read += bytes(v);
    return dropped > 0 && read <= most_read * dropped && price_of_operands(id, 0) < dropped;
  }

  /// With what it needs: of each operand that is not there, the cheaper of keeping it and computing it again.
  void choose(NodeId id, int depth = 0) {
    is_chosen_[at(id.index)] = true;
    for (ValueId v : operands(id)) {
      if (is_free(v)) continue;
      const NodeId from = producer(v);
      if (is_cheap(from) && depth < longest_chain && price_of_operands(from, depth + 1) < bytes(v))
        choose(from, depth + 1);
      else
        is_read_[at(v.index)] = true;
    }
  }

  const CheapNodesQuestion& q_;
  const Graph& graph_;
  std::vector<bool> is_read_;  // per value: by the backward, or by what is computed again
  std::vector<bool> is_chosen_;
  NodeId last_contraction_{-1};
};

}  // namespace

std::vector<bool> cheap_nodes(const CheapNodesQuestion& question) { return Choice(question).run(); }

}  // namespace shardwright
