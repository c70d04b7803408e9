#include "shardwright/simulate/stage_bytes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"

namespace shardwright {
namespace {

bool is_gradient(BufferKind kind) { return kind == BufferKind::accumulator || kind == BufferKind::gradient; }

bool is_kept(BufferKind kind) {
  return kind == BufferKind::parameter || kind == BufferKind::state || kind == BufferKind::accumulator;
}

/// By buffer the last node that reads or writes it; -1: none.
std::vector<int> last_touches(const Program& program) {
  std::vector<int> out(program.buffers.size(), -1);
  for (NodeId id : program.graph.node_ids()) {
    const Node& node = program.graph.node(id);
    for (const auto* values : {&node.operands, &node.results})
      for (ValueId v : *values)
        if (const int b = program.buffer_of[at(v.index)]; b >= 0) out[at(b)] = id.index;
  }
  return out;
}

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

/// What is alive at each node, of one micro-batch.
class AliveBytes {
 public:
  explicit AliveBytes(const Graph& graph) : graph_(graph), begun_(graph.nodes.size()), ended_(begun_) {}

  void add(MemoryKind kind, std::int64_t bytes, int begin, int end) {
    const int last = static_cast<int>(begun_.size()) - 1;
    if (last < 0) return;
    begun_[at(std::clamp(begin, 0, last))][index_of(kind)] += bytes;
    ended_[at(std::clamp(end, 0, last))][index_of(kind)] += bytes;
  }

  void fold_into(StageBytes& out) const {
    BytesByKind alive{};
    Phase phase = Phase::forward;
    const auto go_on_to = [&](Phase next) {  // those between have no nodes
      while (phase != next) {
        const OfPhases<BytesByKind>& after = out.after;
        const BytesByKind left = after[phase];
        phase = static_cast<Phase>(static_cast<int>(phase) + 1);
        out.most[phase] = out.after[phase] = left;
      }
    };
    for (std::size_t n = 0; n < begun_.size(); ++n) {
      if (graph_.nodes[n].phase > phase) go_on_to(graph_.nodes[n].phase);
      shardwright::add(alive, begun_[n]);
      if (total_of(alive) > total_of(out.most[phase])) out.most[phase] = alive;
      shardwright::add(alive, ended_[n], -1);
      out.after[phase] = alive;
    }
    go_on_to(Phase::update);
  }

 private:
  const Graph& graph_;
  std::vector<BytesByKind> begun_, ended_;  // by node
};

}  // namespace

void add(BytesByKind& to, const BytesByKind& more, std::int64_t times) {
  for (std::size_t k = 0; k < memory_kinds; ++k) to[k] += times * more[k];
}

StageBytes stage_bytes(const Pipeline& pipeline, int stage, const std::vector<Besides>& besides,
                       bool with_gradients) {
  const Program& program = pipeline.stage(stage);
  const int nodes = static_cast<int>(program.graph.nodes.size());
  const std::set<const Buffer*> sent = sent_buffers(pipeline, stage);
  const std::vector<int> touched = last_touches(program);
  StageBytes out;
  AliveBytes alive(program.graph);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    if (b.space == Space::host || (is_gradient(b.kind) && !with_gradients)) continue;
    if (is_kept(b.kind) || !b.begin.is_valid()) {
      out.lasting[index_of(kind_of(b.kind))] += b.slots * b.bytes;
      continue;
    }
    // Outputs are alive to the end in an arena only, as is what is sent, until it is taken.
    const bool is_let_go = b.end.index >= nodes || sent.contains(&b);
    const int end = is_let_go ? std::max(touched[i], b.begin.index) : b.end.index;
    alive.add(kind_of(b.kind), b.bytes, b.begin.index, end);
  }
  for (const Besides& b : besides) alive.add(b.kind, std::llround(b.bytes), b.begin, b.end);
  alive.fold_into(out);
  return out;
}

BytesByKind most_at_once(const Pipeline& pipeline, int group, const std::vector<StageBytes>& stages) {
  const Pipelining& p = pipeline.pipelining;
  const std::vector<int> parts = p.parts_of(group);
  const Phase last = p.schedule.splits_backward ? Phase::weights : Phase::backward;
  constexpr int none = -1;
  std::vector<std::vector<int>> done(parts.size(), std::vector<int>(at(p.micro_batches), none));  // phase
  BytesByKind held{}, most{};
  const auto see = [&](const BytesByKind& now) {
    if (total_of(now) > total_of(most)) most = now;
  };
  for (const Task& task : tasks_of(p, group)) {
    const StageBytes& of = stages[at(parts[at(task.chunk)])];
    int& before = done[at(task.chunk)][at(task.micro_batch)];
    if (before != none) add(held, of.after[static_cast<Phase>(before)], -1);
    BytesByKind now = held;
    add(now, of.most[task.phase]);
    see(now);
    before = static_cast<int>(task.phase);
    if (task.phase < last) add(held, of.after[task.phase]);
  }
  held = {};  // what the last micro-batch leaves for the updates
  for (int part : parts) add(held, stages[at(part)].after[last]);
  for (int part : parts) {
    BytesByKind now = held;
    add(now, stages[at(part)].after[last], -1);
    add(now, stages[at(part)].most[Phase::update]);
    see(now);
  }
  return most;
}

}  // namespace shardwright
