#include "shardwright/simulate/memory.h"

#include <algorithm>
#include <numeric>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"

namespace shardwright {
namespace {

constexpr std::size_t told_consumers = 5;

bool is_numbered(const Value& value) {
  return value.name.find_first_not_of("0123456789") == std::string::npos;
}

/// The name that a user knows: a numbered copy is called after what it is a copy of, or what it is reduced to.
std::string told_name(const Graph& graph, const Users& users, ValueId v) {
  ValueId known = v;
  while (is_numbered(graph.value(known))) {
    const Node& producer = graph.node(graph.value(known).producer);
    if (producer.op->kind != OpKind::step && !producer.op->is_alias) break;
    known = producer.operands.front();
  }
  for (NodeId user : users[at(v.index)])
    if (is_numbered(graph.value(known)) && graph.node(user).op->kind == OpKind::step)
      known = graph.node(user).results.front();
  const Value& value = graph.value(known);
  if (is_numbered(value) && !value.gradient_of.empty())
    return fmt::format("the gradient of {}", graph.value(value.gradient_of.front()).name);
  return value.name;
}

/// Bytes of both, and what is largest in either.
void add(MemoryUse& to, const MemoryUse& other) {
  const std::size_t most = std::max(to.largest.size(), other.largest.size());
  for (std::size_t k = 0; k < memory_kinds; ++k) to.bytes[k] += other.bytes[k];
  to.largest.insert(to.largest.end(), other.largest.begin(), other.largest.end());
  std::ranges::stable_sort(to.largest, std::ranges::greater(), &MemoryConsumer::bytes);
  to.largest.resize(most);
}

/// Whether `b` is on the device, and lies in the first `bytes` of its arena.
bool is_within(const Buffer& b, std::int64_t bytes) { return b.space == Space::device && b.offset < bytes; }

/// The first node at which most of the first `bytes` are alive; -1: before all of them.
int peak_of(const Program& program, std::int64_t bytes) {
  std::vector<std::int64_t> more(program.graph.nodes.size() + 3, 0);  // by node + 1: than at the one before
  for (const Buffer& b : program.buffers) {
    if (!is_within(b, bytes)) continue;
    more[at(b.begin.index + 1)] += b.slots * b.bytes;
    more[at(b.end.index + 2)] -= b.slots * b.bytes;
  }
  std::partial_sum(more.begin(), more.end(), more.begin());
  return static_cast<int>(std::max_element(more.begin(), more.end()) - more.begin()) - 1;
}

/// Of the first `bytes` of the arena.
MemoryUse use_within(const Program& program, std::int64_t bytes) {
  const int peak = peak_of(program, bytes);
  MemoryUse out;
  std::int64_t& idle = out.bytes[static_cast<std::size_t>(MemoryKind::workspace)];
  idle = bytes;
  std::vector<const Buffer*> alive;
  for (const Buffer& b : program.buffers) {
    if (!is_within(b, bytes) || b.begin.index > peak || peak > b.end.index) continue;
    idle -= b.slots * b.bytes;
    out.bytes[static_cast<std::size_t>(kind_of(b.kind))] += b.slots * b.bytes;
    alive.push_back(&b);
  }
  std::ranges::stable_sort(alive, std::ranges::greater(),
                           [](const Buffer* b) { return b->slots * b->bytes; });
  alive.resize(std::min(alive.size(), told_consumers));
  const Users users = users_of(program.graph);
  for (const Buffer* b : alive)
    out.largest.push_back(
        {told_name(program.graph, users, b->value), kind_of(b->kind), b->slots * b->bytes, b->slots});
  return out;
}

}  // namespace

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, memory_kinds> names{"parameters",  "optimizer_state", "gradients",
                                                             "activations", "communication",   "workspace"};
  return names[static_cast<std::size_t>(kind)];
}

MemoryKind kind_of(BufferKind kind) {
  switch (kind) {
    case BufferKind::parameter: return MemoryKind::parameters;
    case BufferKind::state: return MemoryKind::optimizer_state;
    case BufferKind::accumulator:
    case BufferKind::gradient: return MemoryKind::gradients;
    case BufferKind::activation: return MemoryKind::activations;
    case BufferKind::communication: return MemoryKind::communication;
    case BufferKind::workspace: break;
  }
  return MemoryKind::workspace;
}

std::int64_t total_of(const BytesByKind& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

MemoryUse memory_use(const Program& program) { return use_within(program, program.arena_bytes); }

MemoryUse memory_use(const Pipeline& pipeline, int rank) {
  const std::vector<int> stages = pipeline.stages_of(rank);
  const int fullest =
      *std::ranges::max_element(stages, {}, [&](int stage) { return pipeline.stage(stage).passing_bytes; });
  MemoryUse out;
  for (int stage : stages) {
    const Program& program = pipeline.stage(stage);
    add(out, use_within(program, stage == fullest ? program.arena_bytes : program.own_bytes()));
  }
  return out;
}

}  // namespace shardwright
