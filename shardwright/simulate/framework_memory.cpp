#include "shardwright/simulate/framework_memory.h"

#include <algorithm>
#include <set>

#include "shardwright/cost/compute.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Buffers of values of `stage` that nobody but another stage still wants.
std::set<const Buffer*> sent_buffers(const Pipeline& pipeline, int stage) {
  std::set<const Buffer*> out;
  for (const PlacedCrossing& c : pipeline.crossings) {
    if (c.from != stage) continue;
    const Buffer* const b = pipeline.stage(stage).buffer(c.sent);
    if (b && b->kind == BufferKind::communication) out.insert(b);
  }
  return out;
}

/// Elements that the last product of the forward makes, in the stage that has the loss: scores of classes.
double scores_of(const Pipeline& pipeline, int stage) {
  if (stage != pipeline.stage_count() - 1) return 0;
  const Graph& graph = pipeline.stage(stage).graph;
  double out = 0;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) break;
    if (node.op->kind == OpKind::compute && work_kind(rule_of(graph, node)) != WorkKind::streaming)
      out = static_cast<double>(element_count(graph.value(node.results[0]).type.shape));
  }
  return out;
}

/// Bytes of the program of one stage, by what is done with them.
struct Held {
  double lasting = 0;    // parameters and states
  double gradients = 0;  // of parameters
  double passing = 0;    // at the node where most of it is alive
};

Held held(const Pipeline& pipeline, int stage, const Framework& framework) {
  const Program& program = pipeline.stage(stage);
  const std::set<const Buffer*> sent = sent_buffers(pipeline, stage);
  Held out;
  std::vector<double> more(program.graph.nodes.size() + 3, 0), gradients = more;  // by node + 1
  double accumulated = 0;
  for (const Buffer& b : program.buffers) {
    const auto bytes = static_cast<double>(b.bytes * (sent.contains(&b) ? 1 : b.slots));
    if (b.kind == BufferKind::parameter || b.kind == BufferKind::state)
      out.lasting += bytes;
    else if (b.kind == BufferKind::accumulator)
      accumulated += bytes;
    else
      for (std::vector<double>* to : {&more, &gradients}) {
        if (to == &gradients && b.kind != BufferKind::gradient) continue;
        (*to)[at(b.begin.index + 1)] += bytes;
        (*to)[at(b.end.index + 2)] -= bytes;
      }
  }
  double passing = 0, of_gradients = 0;
  for (std::size_t n = 0; n < more.size(); ++n) {
    passing += more[n];
    of_gradients += gradients[n];
    if (passing <= out.passing + out.gradients) continue;
    out.passing = passing - of_gradients;
    out.gradients = of_gradients;
  }
  double least = 0;
  for (const Node& node : program.graph.nodes) {
    if (node.op->kind != OpKind::parameter) continue;
    const Type& type = program.graph.value(node.results[0]).type;
    least += framework.gradient_bytes(type.dtype) * static_cast<double>(element_count(type.shape));
  }
  out.gradients = std::max(least, out.gradients + accumulated);
  out.passing += framework.score_bytes * scores_of(pipeline, stage);
  return out;
}

}  // namespace

std::vector<std::int64_t> framework_bytes(const Pipeline& pipeline, const Framework& framework) {
  std::vector<std::int64_t> out;
  for (int group = 0; group < pipeline.group_count(); ++group) {
    double bytes = 0;
    for (int stage : pipeline.stages_of(pipeline.first_rank(group))) {
      const Held h = held(pipeline, stage, framework);
      bytes += h.lasting + h.gradients + h.passing * (1 + framework.slack);
    }
    const int groups =
        pipeline.stage(group).graph.meshes.front().axis_count() + (pipeline.group_count() > 1 ? 1 : 0);
    out.push_back(static_cast<std::int64_t>(bytes) + framework.fixed_bytes + groups * framework.group_bytes);
  }
  return out;
}

}  // namespace shardwright
