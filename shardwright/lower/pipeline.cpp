#include "shardwright/lower/pipeline.h"

#include <algorithm>

namespace shardwright {

Pipeline::Pipeline(Program program) {
  pipelining.micro_batches = program.micro_batches;
  for (int i = 0; i < static_cast<int>(program.graph.outputs.size()); ++i) outputs.push_back({0, i});
  stages.push_back(std::move(program));
}

int Pipeline::rank_count() const { return first_rank(stage_count()); }

int Pipeline::first_rank(int stage) const {
  int rank = 0;
  for (int s = 0; s < stage; ++s) rank += this->stage(s).rank_count();
  return rank;
}

int Pipeline::stage_of(int rank) const {
  int s = 0;
  while (rank >= first_rank(s + 1)) ++s;
  return s;
}

ValueId Pipeline::sent(const Crossing& c) const {
  return stage(c.from).graph.sends[static_cast<std::size_t>(c.send)];
}

ValueId Pipeline::received(const Crossing& c) const { return stage(c.to).graph.find(c.receive); }

Phase Pipeline::phase_of(const Crossing& c) const {
  const Graph& graph = stage(c.to).graph;
  return graph.node(graph.value(received(c)).producer).phase;
}

CrossingTime Pipeline::time_of(const Crossing& c) const {
  const Graph& graph = stage(c.from).graph;
  const Node& node = graph.node(graph.value(sent(c)).producer);
  if (node.op->kind == OpKind::parameter || node.op->kind == OpKind::state) return CrossingTime::step;
  return phase_of(c) == Phase::update ? CrossingTime::update : CrossingTime::micro_batch;
}

Placement placement_of(const Pipeline& pipeline, int stage, ValueId v) {
  const Graph& graph = pipeline.stage(stage).graph;
  const Value& value = graph.value(v);
  const Layout layout = value.layout.value_or(replicated(value.type.shape.size()));
  return {&graph.meshes[static_cast<std::size_t>(layout.mesh)], layout, pipeline.first_rank(stage)};
}

Transfer Pipeline::transfer_of(const Crossing& c, int rank) const {
  const ValueId from = sent(c), to = received(c);
  Transfer out = transfer_between(placement_of(*this, c.from, from), placement_of(*this, c.to, to),
                                  stage(c.to).graph.value(to).global_type().shape, rank);
  out.channel = 1 + static_cast<int>(&c - crossings.data());
  return out;
}

const std::string& Pipeline::output_name(std::size_t i) const {
  const Graph& graph = stage(outputs[i].stage).graph;
  return graph.value(graph.outputs[static_cast<std::size_t>(outputs[i].index)]).name;
}

Type Pipeline::output_type(const StagedGraph::Output& output) const {
  const Graph& graph = stage(output.stage).graph;
  Type type = graph.value(graph.outputs[static_cast<std::size_t>(output.index)]).global_type();
  if (!type.shape.empty()) type.shape[0] *= micro_batches();
  return type;
}

}  // namespace shardwright
