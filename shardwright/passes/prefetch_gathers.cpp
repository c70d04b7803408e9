// Weights that lie sharded, and parts that the forward has left for the backward, are gathered ahead of their use: while
// the nodes between two gathers run, the second is on its way. Its result needs memory from then on, so only one bucket is ahead of the one in use: a gather starts behind
// the gather before it, across the border of forward and backward too. More ahead hides hardly more. Of what goes round the part of the
// next turn starts ahead likewise. What is fetched from the host starts ahead by as many fetches as may hold memory (most_held
// in lower/offload.h): a large one is hidden by more than what runs between it and the one before.
//
// Here is only said where it starts; assign_buffers keeps its place free from there on.

#include <algorithm>
#include <vector>

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

/// The fetches so far.
class FetchesAhead {
 public:
  void add(const Graph& graph, const Fusion& fetches) {
    Fetch next{.end = fetches.end, .bytes = 0, .phase = graph.node(fetches.begin).phase};
    for (NodeId id = fetches.begin; id < fetches.end; ++id.index)
      next.bytes += graph.value(graph.node(id).results.front()).type.bytes();
    copied_.add(next.phase, next.bytes);
    all_.push_back(next);
  }

  /// Behind which the next one starts: what that has brought is in use from there on, and held with all that follow. At least that is
  /// the one before.
  NodeId behind() {
    const Fetch& next = all_[done_];
    while (held_ + next.bytes > most(next.phase) && first_ + 1 < done_) held_ -= all_[first_++].bytes;
    held_ += next.bytes;
    return done_++ == 0 ? NodeId{0} : all_[first_].end;
  }

  std::size_t most_fusions(Phase phase) const {
    return most(phase) > copied_.of_two(phase) ? most_ahead_of_many : most_ahead;
  }

 private:
  std::int64_t most(Phase phase) const { return copied_.most(fetches_held, phase); }

  struct Fetch {
    NodeId end;
    std::int64_t bytes;
    Phase phase;
  };
  std::vector<Fetch> all_;
  CopiedBytes copied_;
  std::size_t done_ = 0, first_ = 0;  // that is held
  std::int64_t held_ = 0;
};

}  // namespace

Program prefetch_gathers(Program program, const PassContext&) {
  const Graph& graph = program.graph;
  const std::vector<bool> is_ahead = gathers_ahead(graph);
  program.starts = graph.node_ids();
  NodeId behind_gather{0};  // which have another link than fetches
  NodeId behind_round{0},
      round_before{0};  // parts that go round for one turn, as keys and values do, set out together
  const std::vector<Fusion> fusions = fusions_of(graph);
  const auto is_fetched = [&](const Fusion& f) {
    return is_ahead[static_cast<std::size_t>(f.begin.index)] &&
           graph.node(f.begin).op->step == StepKind::fetch;
  };
  FetchesAhead fetches;
  for (const Fusion& f : fusions)
    if (is_fetched(f)) fetches.add(graph, f);
  for (std::size_t i = 0; i < fusions.size(); ++i) {
    const Fusion& f = fusions[i];
    if (!is_ahead[static_cast<std::size_t>(f.begin.index)]) continue;
    const bool is_fetch = is_fetched(f), is_round = goes_round(graph, graph.node(f.begin));
    if (is_round && behind_round != f.begin) round_before = behind_round;
    const NodeId behind = is_fetch ? fetches.behind() : is_round ? round_before : behind_gather;
    NodeId start = std::min(f.begin, std::max(behind, ready(graph, f)));
    if (is_fetch)
      if (const std::size_t most = fetches.most_fusions(graph.node(f.begin).phase); i > most)
        start = std::max(start, fusions[i - most].begin);
    // Other micro-batches may come between forward and backward.
    if (program.micro_batches > 1)
      while (graph.node(start).phase != graph.node(f.begin).phase) ++start.index;
    while (graph.node(start).is_fused) ++start.index;
    for (NodeId id = f.begin; id < f.end; ++id.index)
      program.starts[static_cast<std::size_t>(id.index)] = start;
    if (!is_fetch) (is_round ? behind_round : behind_gather) = f.end;
  }
  return program;
}

}  // namespace shardwright
