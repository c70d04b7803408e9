#include "shardwright/passes/share_between_chunks.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/collective.h"
#include "shardwright/passes/place_buffers.h"

namespace shardwright {
namespace {

/// As assign_buffers has placed them.
struct Placed {
  std::vector<Buffer> buffers;
  std::int64_t arena_bytes = 0;
};

/// How long a buffer is needed.
enum class Need { own, task, update };

Need need_of(const Buffer& b, const Graph& graph) {
  if (b.is_in_slots() || !b.begin.is_valid()) return Need::own;
  const Node& first = graph.node(b.begin);
  if (first.phase == Phase::update) return Need::update;
  if (at(b.end.index) >= graph.nodes.size()) return Need::own;
  return graph.node(b.end).phase == first.phase ? Need::task : Need::own;
}

/// What peers or copies write from the start of a transfer on is taken from there on: start_transfers has moved it to where its
/// place was free.
void begin_with_transfers(Program& program) {
  if (program.starts.empty()) return;
  for (NodeId id : program.graph.node_ids()) {
    const Node& node = program.graph.node(id);
    const NodeId start = program.starts[at(id.index)];
    if (node.op->kind != OpKind::step || !is_written_from_start(*node.op->step)) continue;
    const int b = program.buffer_of[at(node.results.front().index)];
    if (b >= 0 && program.buffers[at(b)].begin.is_valid())
      program.buffers[at(b)].begin = std::min(program.buffers[at(b)].begin, start);
  }
}

/// Places all that `program` has, of its update behind the first `updates` bytes of what is shared. Returns where that ends.
std::int64_t place(Program& program, std::int64_t updates) {
  std::vector<Buffer*> own, tasks, update;
  for (Buffer& b : program.buffers) {
    if (b.space == Space::host) continue;
    const Need need = need_of(b, program.graph);
    (need == Need::own ? own : need == Need::task ? tasks : update).push_back(&b);
  }
  const std::size_t nodes = program.graph.nodes.size();
  const std::int64_t shared = place_buffers(own, nodes, 0);
  const std::int64_t end_of_tasks = place_buffers(tasks, nodes, shared),
                     end_of_update = update.empty() ? shared : place_buffers(update, nodes, shared + updates);
  const std::int64_t before = program.arena_bytes;
  program.arena_bytes = std::max(end_of_tasks, end_of_update);
  program.passing_bytes = program.arena_bytes - shared;
  for (Buffer& b : program.buffers)  // the host's lie behind the arena
    if (b.space == Space::host) b.offset += program.arena_bytes - before;
  return update.empty() ? updates : end_of_update - shared;
}

}  // namespace

void share_between_chunks(Pipeline& pipeline) {
  if (pipeline.pipelining.schedule.chunks == 1) return;
  for (int group = 0; group < pipeline.group_count(); ++group) {
    const int rank = pipeline.first_rank(group);
    const std::int64_t apart = pipeline.arena_bytes(rank);
    std::vector<Placed> before;
    std::int64_t updates = 0;
    for (int stage : pipeline.stages_of(rank)) {
      Program& program = pipeline.stages[at(stage)];
      before.push_back({program.buffers, program.arena_bytes});
      begin_with_transfers(program);
      updates = place(program, updates);
    }
    if (pipeline.arena_bytes(rank) < apart) continue;
    for (std::size_t i = 0; int stage : pipeline.stages_of(rank)) {
      Program& program = pipeline.stages[at(stage)];
      program.passing_bytes = 0;
      program.arena_bytes = before[i].arena_bytes, program.buffers = std::move(before[i].buffers);
      ++i;
    }
  }
}

}  // namespace shardwright
