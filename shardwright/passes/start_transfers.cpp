// A step stands where its result is waited for; its transfer starts as soon as its operand is there, so that
// the nodes in between hide it. The arena stays as it is: a transfer starts behind the last node that writes
// where its operand lies, and that of an all_reduce also behind the last that uses the memory of its result,
// since peers may write there from then on; so does what is copied between device and host. In place, as gradients are reduced, that is where the operand was
// computed. Gathers of what lies there long before start where prefetch_gathers says, because their place is free from there on.

#include <algorithm>
#include <map>

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/passes/parameter_steps.h"

namespace shardwright {
namespace {

constexpr int never = -1;

/// For each byte of the arena the last fusion, by number, that has touched it.
class LastTouch {
 public:
  /// By the fusion that runs now, the last so far.
  void touch(std::int64_t begin, std::int64_t end, int fusion) {
    auto it = pieces_.lower_bound(begin);
    if (it != pieces_.begin() && std::prev(it)->second.end > begin) {
      const auto before = std::prev(it);
      if (before->second.end > end) pieces_.emplace(end, before->second);
      before->second.end = begin;
    }
    while (it != pieces_.end() && it->first < end) {
      if (it->second.end > end) pieces_.emplace(end, it->second);
      it = pieces_.erase(it);
    }
    pieces_.insert_or_assign(begin, Piece{end, fusion});
  }

  /// Of any byte in [begin, end).
  int last(std::int64_t begin, std::int64_t end) const {
    int out = never;
    auto it = pieces_.upper_bound(begin);
    if (it != pieces_.begin() && std::prev(it)->second.end > begin) --it;
    for (; it != pieces_.end() && it->first < end; ++it) out = std::max(out, it->second.fusion);
    return out;
  }

 private:
  struct Piece {
    std::int64_t end;
    int fusion;
  };
  std::map<std::int64_t, Piece> pieces_;  // by their begin
};

/// Goes through the program once, with what has touched the arena so far.
class Starts {
 public:
  explicit Starts(const Program& program) : program_(program), graph_(program.graph) {}

  /// By node.
  std::vector<NodeId> find() {
    const std::vector<bool> is_ahead = gathers_ahead(graph_);
    std::vector<NodeId> starts = program_.starts.empty() ? graph_.node_ids() : program_.starts;
    const std::vector<Fusion> fusions = fusions_of(graph_);
    for (int f = 0; f < static_cast<int>(fusions.size()); ++f) {
      const Fusion& fusion = fusions[at(f)];
      const Node& first = graph_.node(fusion.begin);
      if (is_transfer(first) && (!is_ahead[at(fusion.begin.index)] || program_.starts.empty())) {
        const NodeId start = fusions[at(last_in_the_way(fusion) + 1)].begin;
        for (NodeId id = fusion.begin; id < fusion.end; ++id.index) starts[at(id.index)] = start;
      }
      if (first.phase != Phase::update) last_of_[first.phase] = f;
      for (NodeId id = fusion.begin; id < fusion.end; ++id.index) run(graph_.node(id), f);
    }
    return starts;
  }

 private:
  /// The last fusion so far beside which the transfers of `steps` may not be on their way.
  int last_in_the_way(const Fusion& steps) const {
    // Other micro-batches' tasks may lie between; but the update follows the last backward.
    const Phase phase = graph_.node(steps.begin).phase;
    int out = never;
    if (program_.micro_batches > 1 && phase != Phase::forward) {
      out = last_of_[Phase::forward].value_or(never);
      if (phase == Phase::weights) out = std::max(out, last_of_[Phase::backward].value_or(never));
    }
    for (NodeId id = steps.begin; id < steps.end; ++id.index) {
      const Node& step = graph_.node(id);
      const ValueId to = step.results.front();
      for (const ValueId from : step.operands) out = std::max(out, last(writes_, from));
      if (is_written_from_start(*step.op->step)) out = std::max({out, last(writes_, to), last(reads_, to)});
    }
    return out;
  }

  void run(const Node& node, int fusion) {
    if (does_nothing(node)) return;
    for (ValueId v : node.operands) touch(reads_, v, fusion);
    for (ValueId v : node.results) touch(writes_, v, fusion);
  }

  std::int64_t offset(ValueId v) const { return program_.offset(v); }
  std::int64_t end(ValueId v) const { return offset(v) + graph_.value(v).type.bytes(); }
  int last(const LastTouch& touched, ValueId v) const {
    return offset(v) == no_place ? never : touched.last(offset(v), end(v));
  }
  void touch(LastTouch& touched, ValueId v, int fusion) const {
    if (offset(v) != no_place) touched.touch(offset(v), end(v), fusion);
  }

  /// Leaves are there before the first node, and an alias in its operand's place does nothing.
  bool does_nothing(const Node& node) const {
    if (node.op->kind == OpKind::receive) return false;  // that is where it arrives
    if (is_leaf(node)) return true;
    return node.op->is_alias && offset(node.results.front()) == offset(node.operands.front());
  }

  const Program& program_;
  const Graph& graph_;
  LastTouch writes_, reads_;
  OfPhases<std::optional<int>> last_of_;  // fusion of each so far
};

}  // namespace

Program start_transfers(Program program, const PassContext&) {
  program.starts = Starts(program).find();
  return program;
}

}  // namespace shardwright
