#include "shardwright/exchange/torch/lines.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"

namespace shardwright::torch {
namespace {

constexpr std::int64_t most_waiting = std::int64_t{32} << 20;  // bytes of gradients

/// How both are computed at once; null: they are not.
const JointForm* joint(const Node& a, const Node& b) {
  for (const JointForm& form : a.op->torch.joint) {
    const auto is_shared = [&](const std::pair<int, int>& operands) {
      return a.operands[at(operands.first)] == b.operands[at(operands.second)];
    };
    const auto is_read = [&](ValueId v) { return std::ranges::find(b.operands, v) != b.operands.end(); };
    if (form.other == b.op->name && std::ranges::all_of(form.shared, is_shared) &&
        std::ranges::none_of(a.results, is_read))
      return &form;
  }
  return nullptr;
}

class Lines {
 public:
  Lines(const Graph& graph, const std::vector<bool>& is_in_place)
      : graph_(graph), is_alone_(graph.nodes.size()) {
    for (const Fusion& f : fusions_of(graph))
      if (f.end.index == f.begin.index + 1) is_alone_[at(f.begin.index)] = is_in_place[at(f.begin.index)];
  }

  std::vector<Line> of(const std::vector<NodeId>& nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = graph_.node(nodes[i]);
      if (std::ranges::any_of(node.operands, [&](ValueId v) { return waiting_results_.contains(v); }))
        flush();
      if (may_wait(nodes[i])) {
        wait(nodes[i]);
        continue;
      }
      Line line{{nodes[i]}};
      if (i + 1 < nodes.size()) line.joint = joint(node, graph_.node(nodes[i + 1]));
      if (line.joint) line.nodes.push_back(nodes[++i]);
      out_.push_back(std::move(line));
    }
    flush();
    return std::move(out_);
  }

 private:
  /// An update of its own kernel: a trace prices that by its line.
  bool may_wait(NodeId n) const {
    const Node& node = graph_.node(n);
    return node.op->optimizer && !updates_rows(node) && is_alone_[at(n.index)];
  }

  /// Whether both are one optimizer's, with the same settings, types and whatever they share.
  bool are_alike(const Node& a, const Node& b) const {
    if (a.op != b.op || a.attributes != b.attributes || a.operands.size() != b.operands.size()) return false;
    const std::vector<bool> is_own = own_operands(a);
    for (std::size_t i = 0; i < is_own.size(); ++i) {
      const auto dtype = [&](ValueId v) { return graph_.value(v).type.dtype; };
      if (is_own[i] ? dtype(a.operands[i]) != dtype(b.operands[i]) : a.operands[i] != b.operands[i])
        return false;
    }
    return true;
  }

  void wait(NodeId n) {
    const Node& node = graph_.node(n);
    const std::int64_t bytes = graph_.value(node.operands[1]).type.bytes();
    if (waiting_bytes_ + bytes > most_waiting) flush();
    waiting_bytes_ += bytes;
    waiting_results_.insert(node.results.begin(), node.results.end());
    auto line = std::ranges::find_if(waiting_,
                                     [&](const Line& l) { return are_alike(graph_.node(l.nodes[0]), node); });
    if (line == waiting_.end()) line = waiting_.insert(line, Line{});
    line->nodes.push_back(n);
  }

  void flush() {
    std::ranges::move(waiting_, std::back_inserter(out_));
    waiting_.clear();
    waiting_results_.clear();
    waiting_bytes_ = 0;
  }

  const Graph& graph_;
  std::vector<bool> is_alone_;  // by node: it is in place, and no kernel computes it with others
  std::vector<Line> out_, waiting_;
  std::set<ValueId> waiting_results_;
  std::int64_t waiting_bytes_ = 0;
};

}  // namespace

std::vector<Line> lines_of(const Graph& graph, const std::vector<NodeId>& nodes,
                           const std::vector<bool>& is_in_place) {
  return Lines(graph, is_in_place).of(nodes);
}

std::vector<bool> own_operands(const Node& update) {
  std::vector<bool> out(update.operands.size());
  out[1] = true;  // the gradient
  for (std::size_t r = 0; r < update.results.size(); ++r) out[at(update.op->overwrites[r])] = true;
  return out;
}

}  // namespace shardwright::torch
