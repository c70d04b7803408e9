// Buffers of what is kept take the offsets that they have in the first program. All others are placed as assign_buffers does: the
// largest first, at the lowest offset that is free over their life; but those in slots lie there throughout.

#include "shardwright/passes/share_memory.h"

#include <algorithm>
#include <map>
#include <string>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/occupied.h"

namespace shardwright {
namespace {

using KeptLeaves = std::map<std::string, ValueId>;

/// What is kept from step to step.
KeptLeaves kept_leaves_of(const Graph& graph) {
  KeptLeaves out;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::parameter || node.op->kind == OpKind::state)
      out.emplace(graph.value(node.results[0]).name, node.results[0]);
  return out;
}

/// Throws: Error if what is called `name` is not the same value in the same lay on each rank.
void check_alike(const std::string& name, const Program& one, ValueId a, const Program& other, ValueId b) {
  const Value &x = one.graph.value(a), &y = other.graph.value(b);
  if (x.global_type() != y.global_type())
    throw error(
        "'{}' is {} in one program and {} in another; the network is not one for batches of both sizes", name,
        to_text(x.global_type()), to_text(y.global_type()));
  bool is_alike = x.format == y.format && one.rank_count() == other.rank_count();
  for (int rank = 0; is_alike && rank < one.rank_count(); ++rank)
    is_alike = box_of(one.graph, a, rank) == box_of(other.graph, b, rank);
  if (!is_alike)
    throw error("'{}' lies otherwise in one program than in another; they cannot share it", name);
}

/// A value that two programs keep, in both.
struct KeptInBoth {
  ValueId one, other;
};

/// All that a stage keeps. Throws: Error if that is not the same in both programs.
std::vector<KeptInBoth> kept_in_both(const Program& one, const Program& other) {
  for (const Program* program : {&one, &other})
    if (program->host_bytes > 0)
      throw error("programs that keep something on the host cannot share memory; leave out --offload");
  const KeptLeaves ours = kept_leaves_of(one.graph), theirs = kept_leaves_of(other.graph);
  std::vector<KeptInBoth> out;
  for (const auto& [a, b] : {std::pair(&ours, &theirs), {&theirs, &ours}})
    for (const auto& [name, v] : *a)
      if (!b->contains(name)) throw error("'{}' is not in all programs; they cannot share memory", name);
  for (const auto& [name, v] : theirs) {
    check_alike(name, one, ours.at(name), other, v);
    out.push_back({ours.at(name), v});
  }
  return out;
}

void check_stages(const Pipeline& one, const Pipeline& other) {
  if (one.stages.size() != other.stages.size()) throw error("programs of other stages cannot share memory");
}

/// Of the arena's parts in all programs of a stage.
struct StageArena {
  std::int64_t own = 0, passing = 0;

  void hold(std::int64_t more_own, std::int64_t more_passing) {
    own = std::max(own, more_own), passing = std::max(passing, more_passing);
  }
};

/// Moves what passes behind all that is own in any of the programs.
void let_pass_behind(Program& program, const StageArena& arena) {
  const std::int64_t own = program.own_bytes();
  for (Buffer& b : program.buffers)
    if (b.offset >= own) b.offset += arena.own - own;
  program.arena_bytes = arena.own + arena.passing, program.passing_bytes = arena.passing;
}

/// Places all buffers of `program` that `fixed` says no offset of; what passes behind them, as it lies.
void place_around(Program& program, const std::map<int, std::int64_t>& fixed) {
  const int last = static_cast<int>(program.graph.nodes.size()) + 1;
  const Lifetime always{0, last};
  Occupied occupied(last + 1);
  std::vector<Buffer*> order, passing;
  std::int64_t end = 0;
  const std::int64_t own = program.own_bytes();
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    Buffer& buffer = program.buffers[b];
    const auto place = fixed.find(static_cast<int>(b));
    if (buffer.offset >= own) {
      passing.push_back(&buffer);
      continue;
    }
    if (place == fixed.end()) {
      order.push_back(&buffer);
      continue;
    }
    buffer.offset = place->second;
    occupied.take(always, buffer.offset, buffer.bytes);
    end = std::max(end, buffer.end_offset());
  }
  std::ranges::stable_sort(order, [&](const Buffer* a, const Buffer* b) {
    return a->is_in_slots() != b->is_in_slots() ? a->is_in_slots() : a->bytes > b->bytes;
  });
  for (Buffer* b : order) {
    const Lifetime life = b->is_in_slots() ? always : Lifetime{b->begin.index + 1, b->end.index + 1};
    b->offset = occupied.lowest_free(life, b->slots * b->bytes, 0);
    occupied.take(life, b->offset, b->slots * b->bytes);
    end = std::max(end, b->end_offset());
  }
  for (Buffer* b : passing) b->offset += end - own;
  program.arena_bytes = end + program.passing_bytes;
}

}  // namespace

void check_shares(const Pipeline& one, const Pipeline& other) {
  check_stages(one, other);
  for (std::size_t s = 0; s < one.stages.size(); ++s) kept_in_both(one.stages[s], other.stages[s]);
}

std::vector<Pipeline> sharing_memory(std::vector<Pipeline> pipelines) {
  const std::vector<Program>& first = pipelines.front().stages;
  std::vector<StageArena> arenas;
  for (const Program& program : first) arenas.push_back({program.own_bytes(), program.passing_bytes});
  for (std::size_t p = 1; p < pipelines.size(); ++p) {
    check_stages(pipelines.front(), pipelines[p]);
    for (std::size_t s = 0; s < first.size(); ++s) {
      Program& program = pipelines[p].stages[s];
      std::map<int, std::int64_t> fixed;  // by buffer
      for (const auto& [own, v] : kept_in_both(first[s], program))
        fixed[program.buffer_of[at(v.index)]] = first[s].buffer(own)->offset;
      place_around(program, fixed);
      arenas[s].hold(program.own_bytes(), program.passing_bytes);
    }
  }
  for (Pipeline& p : pipelines)
    for (std::size_t s = 0; s < p.stages.size(); ++s) let_pass_behind(p.stages[s], arenas[s]);
  return pipelines;
}

}  // namespace shardwright
