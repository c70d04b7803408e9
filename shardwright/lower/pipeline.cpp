#include "shardwright/lower/pipeline.h"

#include <algorithm>

#include "shardwright/lower/kept_leaves.h"
#include "shardwright/lower/step.h"
#include "shardwright/plan/batch.h"

namespace shardwright {

Pipeline::Pipeline(Program program) {
  pipelining.micro_batches = program.micro_batches;
  pipelining.interleave = program.interleave;
  pipelining.schedule.splits_backward =
      std::ranges::any_of(program.graph.nodes, [](const Node& node) { return node.phase == Phase::weights; });
  for (int i = 0; i < static_cast<int>(program.graph.outputs.size()); ++i)
    if (!program.is_of_further_part(program.graph.outputs[static_cast<std::size_t>(i)]))
      outputs.push_back({0, i});
  stages.push_back(std::move(program));
}

int Pipeline::rank_count() const {
  const int last = group_count() - 1;
  return first_rank(last) + stage(last).rank_count();
}

int Pipeline::first_rank(int stage) const {
  int rank = 0;
  for (int group = 0; group < pipelining.stage_of(stage); ++group) rank += this->stage(group).rank_count();
  return rank;
}

int Pipeline::group_of(int rank) const {
  int group = 0;
  while (group + 1 < group_count() && rank >= first_rank(group + 1)) ++group;
  return group;
}

std::vector<int> Pipeline::stages_of(int rank) const { return pipelining.parts_of(group_of(rank)); }

std::int64_t Pipeline::arena_bytes(int rank) const {
  std::int64_t own = 0, passing = 0;
  for (int stage : stages_of(rank)) {
    own += this->stage(stage).own_bytes();
    passing = std::max(passing, this->stage(stage).passing_bytes);
  }
  return own + passing;
}

std::vector<PlacedArena> Pipeline::arenas_of(int rank) const {
  std::vector<PlacedArena> out;
  std::int64_t own = 0, host = 0;
  for (int stage : stages_of(rank)) {
    out.push_back({.stage = stage, .own = own, .host = host});
    own += this->stage(stage).own_bytes(), host += this->stage(stage).host_bytes;
  }
  for (PlacedArena& arena : out) arena.passing = own;
  return out;
}

std::int64_t Pipeline::host_bytes(int rank) const {
  std::int64_t bytes = 0;
  for (int stage : stages_of(rank)) bytes += this->stage(stage).host_bytes;
  return bytes;
}

void Pipeline::connect(const Crossing& c) {
  const Program &giver = stage(c.from), &taker = stage(c.to);
  const ValueId sent = giver.graph.sends[static_cast<std::size_t>(c.send)],
                received = taker.graph.find(c.receive);
  place(c.from, c.to, sent, received);
  for (int part = 1; part < taker.interleave; ++part)
    if (const ValueId own = taker.of_part(received, part); own != received)
      place(c.from, c.to, giver.of_part(sent, part), own);
}

void Pipeline::place(int from, int to, ValueId sent, ValueId received) {
  const Graph& taker = stage(to).graph;
  PlacedCrossing out{.channel = 1 + static_cast<int>(crossings.size()),
                     .from = from,
                     .to = to,
                     .sent = sent,
                     .received = received};
  const Node& leaf = taker.node(taker.value(out.received).producer);
  out.phase = leaf.phase;
  if (is_kept_leaf(leaf))  // not by what is sent: a pass may have put a parameter where its alias was
    out.time = CrossingTime::step;
  else if (out.phase == Phase::update)
    out.time = CrossingTime::update;
  crossings.push_back(out);
}

Placement placement_of(const Pipeline& pipeline, int stage, ValueId v) {
  const Graph& graph = pipeline.stage(stage).graph;
  const Value& value = graph.value(v);
  const Layout layout = layout_of(value);
  return {&graph.meshes[static_cast<std::size_t>(layout.mesh)], layout, pipeline.first_rank(stage)};
}

TransfersBetween Pipeline::transfers_of(const PlacedCrossing& c) const {
  return {placement_of(*this, c.from, c.sent), placement_of(*this, c.to, c.received),
          stage(c.to).graph.value(c.received).global_type().shape};
}

const std::string& Pipeline::output_name(std::size_t i) const {
  const Graph& graph = stage(outputs[i].stage).graph;
  return graph.value(graph.outputs[static_cast<std::size_t>(outputs[i].index)]).name;
}

Type Pipeline::output_type(const StagedGraph::Output& output) const {
  const Graph& graph = stage(output.stage).graph;
  const ValueId v = graph.outputs[static_cast<std::size_t>(output.index)];
  const bool is_of_step = handed_out_in(graph, v) == Phase::update;
  return of_whole_step(graph.value(v).global_type(), is_of_step ? 1 : batch_parts());
}

}  // namespace shardwright
