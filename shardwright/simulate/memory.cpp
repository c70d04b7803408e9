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

/// The first node at which most bytes are alive; -1: before all of them.
int peak_of(const Program& program) {
  std::vector<std::int64_t> more(program.graph.nodes.size() + 3, 0);  // by node + 1: than at the one before
  for (const Buffer& b : program.buffers) {
    if (b.space == Space::host) continue;
    more[at(b.begin.index + 1)] += b.slots * b.bytes;
    more[at(b.end.index + 2)] -= b.slots * b.bytes;
  }
  std::partial_sum(more.begin(), more.end(), more.begin());
  return static_cast<int>(std::max_element(more.begin(), more.end()) - more.begin()) - 1;
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

MemoryUse memory_use(const Program& program) {
  const int peak = peak_of(program);
  MemoryUse out;
  std::int64_t& idle = out.bytes[static_cast<std::size_t>(MemoryKind::workspace)];
  idle = program.arena_bytes;
  std::vector<const Buffer*> alive;
  for (const Buffer& b : program.buffers) {
    if (b.space == Space::host || b.begin.index > peak || peak > b.end.index) continue;
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

}  // namespace shardwright
