// A program: what every rank of a stage runs in one step. The same graph type as the network, with local shapes, a
// layout on every value, and redistribution steps as ordinary nodes; and the buffers of one arena that they lie in.
//
// Forward and backward, whole or cut, run once per micro-batch, the update once. Micro-batches that are alive at the same
// time have a slot each, for what one of them leaves for another (plan/lanes.h).
//
// What lowering emits is what the runtime executes, the simulator times, the memory planner sizes and the
// verifier proves. There is no second model of the training step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/redistribution.h"
#include "shardwright/plan/lanes.h"

namespace shardwright {

constexpr std::int64_t no_place = -1;

/// What the bytes of a buffer are for, the most lasting first.
enum class BufferKind : std::uint8_t {
  parameter,
  state,          // and others that are kept from step to step
  accumulator,    // of gradients, kept from micro-batch to micro-batch
  gradient,       // of parameters
  activation,     // of the forward, read by the backward
  communication,  // what collectives read and make, gathered parameters included
  workspace
};

std::string_view name_of(BufferKind kind);
/// Throws: Error that lists them.
BufferKind buffer_kind_called(std::string_view name);

/// A place in the arena. Values share one where none needs what another has written there: parameters and states stay
/// in theirs from step to step, and the new value of an update may take its leaf's.
struct Buffer {
  ValueId value;  // that it is called after: the first of the most lasting in it
  BufferKind kind = BufferKind::workspace;
  std::int64_t offset = 0;  // of the host's behind all of the device's
  std::int64_t bytes = 0;   // of one slot
  int slots = 1;            // 1, or those of its life, side by side
  Life life = Life::whole;
  Space space = Space::device;
  /// From the first to the last node, both included, that it is alive for. `begin` invalid: from before the first;
  /// `end` the number of nodes: after the last.
  NodeId begin, end;

  std::int64_t end_offset() const { return offset + slots * bytes; }
  /// It lives from one task of a micro-batch into another, of which several are alive at once.
  bool is_in_slots() const { return slots > 1 || life != Life::whole; }
};

/// A value that the program shares with the world outside, an input, an output or what crosses between stages, as a further
/// part of the micro-batch has it.
struct PartValue {
  ValueId of;    // that of part 0
  int part = 1;  // 1, 2, ...
  ValueId value;
};

struct Program {
  Graph graph;  // every value has `layout` and `global_shape`; compute nodes have `strategy`

  std::vector<Buffer> buffers = {};
  /// Per value the number of its buffer; -1: it passes between fused nodes and is never in memory. Empty until buffers
  /// are assigned.
  std::vector<int> buffer_of = {};
  std::int64_t arena_bytes = 0;  // of the device
  /// The end of the arena, which stages on the same devices share: what lives within one task lies there, and what lives within
  /// the update (passes/share_between_chunks.h).
  std::int64_t passing_bytes = 0;
  std::int64_t host_bytes = 0;  // of the host, for each device

  int micro_batches = 1;
  int interleave = 1;  // parts of each, whose nodes stand in turn (passes/interleave_parts.cpp)
  std::vector<PartValue> parts = {};  // of the further ones; what all share is not among them
  Lanes lanes = {};
  bool keeps_sends = false;  // what the backward sends stays in its slot until it is taken
  /// By owner: what is computed again as a whole, so that nothing that it makes inside is kept. Empty: none is.
  std::vector<bool> is_repeated = {};

  /// Of the arena, what no other stage uses.
  std::int64_t own_bytes() const { return arena_bytes - passing_bytes; }
  int batch_parts() const { return micro_batches * interleave; }
  /// `v`, of part 0, as `part` has it: the same where all share it.
  ValueId of_part(ValueId v, int part) const;
  /// Of a further part.
  bool is_of_further_part(ValueId v) const;

  /// Null: never in memory.
  const Buffer* buffer(ValueId v) const {
    const int b = buffer_of[static_cast<std::size_t>(v.index)];
    return b < 0 ? nullptr : &buffers[static_cast<std::size_t>(b)];
  }
  /// Of a buffer that a micro-batch uses.
  int slot(const Buffer& b, int micro_batch) const {
    return b.slots == 1 ? 0 : lanes.slot(micro_batch, b.life);
  }
  /// Bytes from the start of the arena, or `no_place`. The host's lie behind its end: from `arena_bytes` on.
  std::int64_t offset(ValueId v, int micro_batch = 0) const {
    const Buffer* b = buffer(v);
    return b ? b->offset + slot(*b, micro_batch) * b->bytes : no_place;
  }

  /// Per node: of a step the node in front of which its transfer starts, itself or one above; of any other
  /// itself. Empty means that nothing starts early.
  std::vector<NodeId> starts;

  int rank_count() const { return graph.meshes.front().size(); }
};

/// The redistribution step that a step node stands for, from its operator, attributes and layouts.
Step step_of(const Graph& graph, const Node& node);

/// Most bytes that a rank holds of what a step node moves, before or behind it.
std::int64_t bytes_held(const Graph& graph, const Node& node);

/// The redistribution between the layouts of a step node's operand and result: its price.
const Redistribution& redistribution_of(const Graph& graph, const Node& node, Redistributor& redistributor);

/// What the kernel of a node is told on one rank, and in which formats its tensors lie. They have no memory yet.
struct LocalCall {
  std::vector<TensorView> operands;
  std::vector<TensorView> results;
  std::vector<Format> operand_formats;
  std::vector<Format> result_formats;
  Attributes attributes;
  Rule rule;
  LoopBox loops;

  KernelCall call() const { return {operands, results, attributes, rule, loops}; }
};
LocalCall local_call(const Graph& graph, const Node& node, int rank);

/// Of a value of a program; without one it is whole on every rank.
Layout layout_of(const Value& value);

/// What `rank` holds of a value.
Box box_of(const Graph& graph, ValueId v, int rank);

/// Makes `node` the step node of `step`: operator and attributes.
void set_step(Node& node, const Step& step, std::span<const Mesh> meshes);

}  // namespace shardwright
