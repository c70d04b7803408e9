#include "shardwright/simulate/framework_memory.h"

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/node_kinds.h"

namespace shardwright {
namespace {

std::size_t index_of(MemoryKind kind) { return static_cast<std::size_t>(kind); }

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

bool is_kept(BufferKind kind) {
  return kind == BufferKind::parameter || kind == BufferKind::state || kind == BufferKind::accumulator;
}

/// Of what comes and goes in a step, at the node at which most of it is alive.
BytesByKind most_passing(const Program& program, const std::set<const Buffer*>& sent) {
  std::vector<BytesByKind> more(program.graph.nodes.size() + 3);  // by node + 1: than at the one before
  for (const Buffer& b : program.buffers) {
    if (b.space == Space::host) continue;
    if (is_kept(b.kind)) continue;
    const std::int64_t bytes = b.bytes * (sent.contains(&b) ? 1 : b.slots);
    more[at(b.begin.index + 1)][index_of(kind_of(b.kind))] += bytes;
    more[at(b.end.index + 2)][index_of(kind_of(b.kind))] -= bytes;
  }
  BytesByKind alive{}, most{};
  for (const BytesByKind& m : more) {
    for (std::size_t k = 0; k < memory_kinds; ++k) alive[k] += m[k];
    if (total_of(alive) > total_of(most)) most = alive;
  }
  return most;
}

BytesByKind of_stage(const Pipeline& pipeline, int stage, const Framework& framework) {
  const Program& program = pipeline.stage(stage);
  BytesByKind out = most_passing(program, sent_buffers(pipeline, stage));
  std::int64_t& gradients = out[index_of(MemoryKind::gradients)];
  const bool has_loss = stage == pipeline.stage_count() - 1;
  const double scores = has_loss ? score_copies(program, framework) : 0;
  const double passing = static_cast<double>(total_of(out) - gradients) + scores;
  out[index_of(MemoryKind::workspace)] += static_cast<std::int64_t>(scores + framework.slack * passing);
  for (const Buffer& b : program.buffers)
    if (b.space == Space::device && is_kept(b.kind)) out[index_of(kind_of(b.kind))] += b.slots * b.bytes;
  gradients = std::max(gradients, static_cast<std::int64_t>(least_gradients(program, framework)));
  return out;
}

}  // namespace

double least_gradients(const Program& program, const Framework& framework) {
  double out = 0;
  for (const Node& node : program.graph.nodes) {
    if (node.op->kind != OpKind::parameter || is_frozen(node)) continue;
    const Type& type = program.graph.value(node.results[0]).type;
    out += framework.gradient_bytes(type.dtype) * static_cast<double>(element_count(type.shape));
  }
  return out;
}

double score_copies(const Program& program, const Framework& framework) {
  double scores = 0;
  for (const Node& node : program.graph.nodes) {
    if (node.phase != Phase::forward) break;
    if (node.op->kind == OpKind::compute && work_kind(rule_of(program.graph, node)) != WorkKind::streaming)
      scores = static_cast<double>(element_count(program.graph.value(node.results[0]).type.shape));
  }
  return framework.score_bytes * scores;
}

std::vector<BytesByKind> framework_memory(const Pipeline& pipeline, const Framework& framework) {
  std::vector<BytesByKind> out;
  for (int group = 0; group < pipeline.group_count(); ++group) {
    BytesByKind& bytes = out.emplace_back();
    for (int stage : pipeline.stages_of(pipeline.first_rank(group))) {
      const BytesByKind more = of_stage(pipeline, stage, framework);
      for (std::size_t k = 0; k < memory_kinds; ++k) bytes[k] += more[k];
    }
    const int groups =
        pipeline.stage(group).graph.meshes.front().axis_count() + (pipeline.group_count() > 1 ? 1 : 0);
    bytes[index_of(MemoryKind::communication)] += framework.fixed_bytes + groups * framework.group_bytes;
  }
  return out;
}

}  // namespace shardwright
