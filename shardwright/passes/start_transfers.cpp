// A step stands where its result is waited for; its transfer starts as soon as its operand is there, so that
// the nodes in between hide it. The arena stays as it is: a transfer starts behind the last node that writes
// where its operand lies, and that of an all_reduce also behind the last that uses the memory of its result,
// since peers may write there from then on. In place, as gradients are reduced, that is where the operand was
// computed. Gathers of weights start where prefetch_gathers says, because their place is free from there on.

#include <algorithm>

#include "shardwright/graph/op.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/passes/parameter_steps.h"

namespace shardwright {
namespace {

class Starts {
 public:
  explicit Starts(const Program& program)
      : program_(program), graph_(program.graph), fusions_(fusions_of(program.graph)) {
    for (const Value& value : graph_.values) bytes_.push_back(value.type.bytes());  // asked for very often
  }

  /// By node.
  std::vector<NodeId> find() const {
    const std::vector<bool> is_ahead = gathers_of_weights(graph_);
    std::vector<NodeId> starts = program_.starts.empty() ? graph_.node_ids() : program_.starts;
    for (auto fusion = fusions_.begin(); fusion != fusions_.end(); ++fusion) {
      const OpDef& op = *graph_.node(fusion->begin).op;
      if (op.kind != OpKind::step || is_local(*op.step)) continue;
      if (is_ahead[static_cast<std::size_t>(fusion->begin.index)] && !program_.starts.empty()) continue;
      auto start = fusion;
      while (start != fusions_.begin() && lets_pass(*std::prev(start), *fusion)) --start;
      for (NodeId id = fusion->begin; id < fusion->end; ++id.index)
        starts[static_cast<std::size_t>(id.index)] = start->begin;
    }
    return starts;
  }

 private:
  /// The transfers of `steps` may be on their way while these nodes run.
  bool lets_pass(const Fusion& fusion, const Fusion& steps) const {
    // Another micro-batch's forward may lie between; but the update follows the last backward.
    if (program_.micro_batches > 1 && graph_.node(steps.begin).phase == Phase::backward &&
        graph_.node(fusion.begin).phase == Phase::forward)
      return false;
    if (program_.micro_batches > 1 && graph_.node(steps.begin).phase == Phase::update &&
        graph_.node(fusion.begin).phase == Phase::forward)
      return false;
    for (NodeId id = steps.begin; id < steps.end; ++id.index)
      if (!lets_pass(fusion, graph_.node(id))) return false;
    return true;
  }
  bool lets_pass(const Fusion& fusion, const Node& step) const {
    const ValueId from = step.operands.front(), to = step.results.front();
    const bool needs_result = step.op->step == StepKind::all_reduce;
    for (NodeId id = fusion.begin; id < fusion.end; ++id.index) {
      const Node& node = graph_.node(id);
      if (writes(node, from) || (needs_result && (writes(node, to) || reads(node, to)))) return false;
    }
    return true;
  }

  bool overlap(ValueId a, ValueId b) const {
    const std::int64_t x = offset(a), y = offset(b);
    if (x == no_place || y == no_place) return false;
    return x < y + bytes_[static_cast<std::size_t>(b.index)] &&
           y < x + bytes_[static_cast<std::size_t>(a.index)];
  }
  std::int64_t offset(ValueId v) const { return program_.offsets[static_cast<std::size_t>(v.index)]; }

  /// Leaves are there before the first node, and an alias in its operand's place does nothing.
  bool does_nothing(const Node& node) const {
    if (node.op->kind == OpKind::receive) return false;  // that is where it arrives
    if (node.op->kind != OpKind::compute && node.op->kind != OpKind::step) return true;
    return node.op->is_alias && offset(node.results.front()) == offset(node.operands.front());
  }
  bool writes(const Node& node, ValueId v) const { return !does_nothing(node) && touches(node.results, v); }
  bool reads(const Node& node, ValueId v) const { return !does_nothing(node) && touches(node.operands, v); }
  bool touches(const std::vector<ValueId>& values, ValueId v) const {
    for (ValueId other : values)
      if (overlap(other, v)) return true;
    return false;
  }

  const Program& program_;
  const Graph& graph_;
  std::vector<Fusion> fusions_;
  std::vector<std::int64_t> bytes_;  // by value
};

}  // namespace

Program start_transfers(Program program, const PassContext&) {
  program.starts = Starts(program).find();
  return program;
}

}  // namespace shardwright
