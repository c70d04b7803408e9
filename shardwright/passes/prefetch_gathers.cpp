// Weights that lie sharded, and parts that the forward has left for the backward, are gathered ahead of their use: while
// the nodes between two gathers run, the second is on its way, across the border of forward and backward too. Its result needs
// memory from then on, so weights are ahead of the one in use, as fetches from the host are, by as many as may hold memory
// (most_held in lower/offload.h), at least by one: a large one is hidden by more than what runs between it and the one before.
// Of activations, which are larger, one is ahead.
// Of what goes round the part of the next turn starts ahead likewise.
//
// Here is only said where it starts; assign_buffers keeps its place free from there on.

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/offload.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/passes/parameter_steps.h"

namespace shardwright {
namespace {

/// Behind what makes the operands of `gathers`, or receives them; leaves are there before the first node.
NodeId ready(const Graph& graph, const Fusion& gathers) {
  NodeId out{0};
  for (NodeId id = gathers.begin; id < gathers.end; ++id.index)
    for (const ValueId operand : graph.node(id).operands) {
      const NodeId producer = graph.value(operand).producer;
      const OpKind kind = graph.node(producer).op->kind;
      const bool is_made = kind == OpKind::compute || kind == OpKind::step || kind == OpKind::receive;
      if (is_made) out = std::max(out, NodeId{producer.index + 1});
    }
  return out;
}

/// Fusions before its reader: fetches may have been ready since the forward, and take memory from where they start.
/// Of a phase that fetches little one is ahead, and of others several.
constexpr std::size_t most_ahead = 12, most_ahead_of_many = 60;

/// Gathers or fetches, in their order.
class Ahead {
 public:
  struct Limits {
    int times = 1, shares = 1;  // of most_held
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
  };
  explicit Ahead(const Limits& limits) : limits_(limits) {}

  void add(const Graph& graph, const Fusion& copies, int alive = 1) {
    Copy next{.end = copies.end, .bytes = 0, .phase = graph.node(copies.begin).phase};
    for (NodeId id = copies.begin; id < copies.end; ++id.index)
      next.bytes += graph.value(graph.node(id).results.front()).type.bytes();
    copied_.add(next.phase, next.bytes, alive);
    all_.push_back(next);
  }
  void add_staying(Phase phase, std::int64_t bytes) { copied_.add_staying(phase, bytes); }

  /// Behind which the next one starts: what that has brought is in use from there on, and held with all that follow. At least that is
  /// the one before.
  NodeId behind() {
    const Copy& next = all_[done_];
    while (held_ + next.bytes > most(next.phase) && first_ + 1 < done_) held_ -= all_[first_++].bytes;
    held_ += next.bytes;
    return done_++ == 0 ? NodeId{0} : all_[first_].end;
  }

  std::size_t most_fusions(Phase phase) const {
    return most(phase) > copied_.of_two(phase) ? most_ahead_of_many : most_ahead;
  }

 private:
  std::int64_t most(Phase phase) const {
    return std::min(limits_.bytes, copied_.most(limits_.times, phase, limits_.shares));
  }

  struct Copy {
    NodeId end;
    std::int64_t bytes;
    Phase phase;
  };
  std::vector<Copy> all_;
  Limits limits_;
  CopiedBytes copied_;
  std::size_t done_ = 0, first_ = 0;  // that is held
  std::int64_t held_ = 0;
};

/// Of activations that stay on the device, of a micro-batch.
std::int64_t kept_bytes(const Graph& graph) {
  std::int64_t out = 0;
  for (ValueId v : kept_activations(graph)) out += graph.value(v).type.bytes();
  return out;
}

}  // namespace

Program prefetch_gathers(Program program, const PassContext& context) {
  const Graph& graph = program.graph;
  const std::vector<ValueId> parameters = parameter_steps(graph);
  const std::vector<bool> is_ahead = gathers_ahead(graph, parameters);
  program.starts = graph.node_ids();
  NodeId behind_gather{0};
  NodeId behind_round{0},
      round_before{0};  // parts that go round for one turn, as keys and values do, set out together
  const std::vector<Fusion> fusions = fusions_of(graph);
  const auto is_round = [&](const Fusion& f) { return goes_round(graph, graph.node(f.begin)); };
  const auto is_fetch = [&](const Fusion& f) { return graph.node(f.begin).op->step == StepKind::fetch; };
  const auto is_weight = [&](const Fusion& f) { return parameters[at(f.begin.index)].is_valid(); };
  Ahead fetches({fetches_held, shares_of_copies});  // over a link of their own
  Ahead weights({weights_held, shares_of_weights,
                 most_bucket_bytes(context.cluster ? context.cluster->memory_bytes : 0)});
  const int alive = program.lanes.slots[0];
  OfPhases<bool> fetches_activations = {};
  for (const Fusion& f : fusions) {
    if (!is_ahead[at(f.begin.index)]) continue;
    const Node& node = graph.node(f.begin);
    const bool is_activation = is_fetch(f) && !is_leaf(graph.node(graph.value(node.operands[0]).producer));
    if (is_fetch(f) || is_weight(f))
      (is_fetch(f) ? fetches : weights).add(graph, f, is_activation ? alive : 1);
    if (is_activation && !std::exchange(fetches_activations[node.phase], true))
      fetches.add_staying(node.phase, alive * kept_bytes(graph));
  }
  for (std::size_t i = 0; i < fusions.size(); ++i) {
    const Fusion& f = fusions[i];
    if (!is_ahead[at(f.begin.index)]) continue;
    if (is_round(f) && behind_round != f.begin) round_before = behind_round;
    const NodeId behind = is_fetch(f)    ? fetches.behind()
                          : is_weight(f) ? weights.behind()
                          : is_round(f)  ? round_before
                                         : behind_gather;
    NodeId start = std::min(f.begin, std::max(behind, ready(graph, f)));
    if (is_fetch(f))
      if (const std::size_t most = fetches.most_fusions(graph.node(f.begin).phase); i > most)
        start = std::max(start, fusions[i - most].begin);
    // Other micro-batches may come between forward and backward.
    if (program.micro_batches > 1)
      while (graph.node(start).phase != graph.node(f.begin).phase) ++start.index;
    while (graph.node(start).is_fused) ++start.index;
    for (NodeId id = f.begin; id < f.end; ++id.index)
      program.starts[static_cast<std::size_t>(id.index)] = start;
    if (!is_fetch(f)) (is_round(f) ? behind_round : behind_gather) = f.end;
  }
  return program;
}

}  // namespace shardwright
