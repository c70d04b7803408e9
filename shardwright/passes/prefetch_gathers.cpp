// Weights that lie sharded, and parts that the forward has left for the backward, are gathered ahead of their use: while
// the nodes between two gathers run, the second is on its way. Its result needs memory from then on, so only one bucket is ahead of the one in use: a gather starts behind
// the gather before it, across the border of forward and backward too. More ahead hides hardly more. What is fetched from
// the host starts ahead likewise, and of what goes round the part of the next turn.
//
// Here is only said where it starts; assign_buffers keeps its place free from there on.

#include <algorithm>

#include "shardwright/graph/op.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/passes/parameter_steps.h"

namespace shardwright {
namespace {

/// Behind what makes the operands of `gathers`, or receives them; leaves are there before the first node.
NodeId ready(const Graph& graph, const Fusion& gathers) {
  NodeId out{0};
  for (NodeId id = gathers.begin; id < gathers.end; ++id.index) {
    const NodeId producer = graph.value(graph.node(id).operands.front()).producer;
    const OpKind kind = graph.node(producer).op->kind;
    const bool is_made = kind == OpKind::compute || kind == OpKind::step || kind == OpKind::receive;
    if (is_made) out = std::max(out, NodeId{producer.index + 1});
  }
  return out;
}

/// Fusions before its reader: fetches may have been ready since the forward, and take memory from where they start.
constexpr std::size_t most_ahead = 12;

}  // namespace

Program prefetch_gathers(Program program, const PassContext&) {
  const Graph& graph = program.graph;
  const std::vector<bool> is_ahead = gathers_ahead(graph);
  program.starts = graph.node_ids();
  NodeId behind_gather{0}, behind_fetch{0};  // they have links of their own
  NodeId behind_round{0},
      round_before{0};  // parts that go round for one turn, as keys and values do, set out together
  const std::vector<Fusion> fusions = fusions_of(graph);
  for (std::size_t i = 0; i < fusions.size(); ++i) {
    const Fusion& f = fusions[i];
    if (!is_ahead[static_cast<std::size_t>(f.begin.index)]) continue;
    const bool is_fetch = graph.node(f.begin).op->step == StepKind::fetch;
    const bool is_round = goes_round(graph, graph.node(f.begin));
    if (is_round && behind_round != f.begin) round_before = behind_round;
    NodeId& behind_last = is_fetch ? behind_fetch : is_round ? behind_round : behind_gather;
    NodeId start = std::min(f.begin, std::max(is_round ? round_before : behind_last, ready(graph, f)));
    if (is_fetch && i > most_ahead) start = std::max(start, fusions[i - most_ahead].begin);
    // Other micro-batches may come between forward and backward.
    if (program.micro_batches > 1)
      while (graph.node(start).phase != graph.node(f.begin).phase) ++start.index;
    while (graph.node(start).is_fused) ++start.index;
    for (NodeId id = f.begin; id < f.end; ++id.index)
      program.starts[static_cast<std::size_t>(id.index)] = start;
    behind_last = f.end;
  }
  return program;
}

}  // namespace shardwright
