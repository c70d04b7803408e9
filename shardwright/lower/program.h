// A program: what every rank of a stage runs in one step. The same graph type as the network, with local shapes, a
// layout on every value, and redistribution steps as ordinary nodes; and the place of every value in one
// arena.
//
// Forward and backward run once per micro-batch, the update once. Micro-batches that are alive at the same time have a
// slot each, for what the backward reads of the forward.
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

namespace shardwright {

constexpr std::int64_t no_place = -1;

struct Program {
  Graph graph;  // every value has `layout` and `global_shape`; compute nodes have `strategy`

  /// Bytes from the start of the arena, per value. Parameters and states stay in place from step to step; the
  /// new value of an update may share its leaf's place. `no_place`: the value passes between fused nodes and
  /// is never in memory. Empty until buffers are assigned.
  std::vector<std::int64_t> offsets;
  std::int64_t arena_bytes = 0;

  int micro_batches = 1;
  int slots = 1;
  bool keeps_sends = false;   // what the backward sends stays in its slot until it is taken
  std::vector<bool> in_slot;  // per value: every slot has one, `slot_bytes` further on; empty = none
  std::int64_t slot_bytes = 0;

  std::int64_t offset(ValueId v, int slot = 0) const {
    const auto i = static_cast<std::size_t>(v.index);
    return offsets[i] == no_place || in_slot.empty() || !in_slot[i] ? offsets[i]
                                                                    : offsets[i] + slot * slot_bytes;
  }

  /// Per node: of a step the node in front of which its transfer starts, itself or one above; of any other
  /// itself. Empty means that nothing starts early.
  std::vector<NodeId> starts;

  int rank_count() const { return graph.meshes.front().size(); }
};

/// The redistribution step that a step node stands for, from its operator, attributes and layouts.
Step step_of(const Graph& graph, const Node& node);

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
