// Where micro-batches that are alive at once keep what one task leaves for another.
//
// From which of a micro-batch's tasks to which a value lives says its *life*. Values of one life have a slot for each
// micro-batch that is within it at once. A micro-batch works in a *lane*: a slot of each life. Where each chunk takes its
// micro-batches in their order, slots are taken in turn.
#pragma once

#include <array>
#include <vector>

#include "shardwright/plan/schedule.h"

namespace shardwright {

enum class Life : std::uint8_t {
  whole,       // from the forward to the last task of a micro-batch
  to_inputs,   // from the forward to the gradients of inputs, where these of weights are by themselves
  to_weights,  // from the gradients of inputs to those of weights
};
constexpr std::size_t lives = 3;
using OfLives = std::array<int, lives>;

struct Lanes {
  OfLives slots{1, 1, 1};
  std::vector<OfLives> slot_of = {};  // by lane; empty: as many as slots of the whole, which are its own
  std::vector<int> of = {};           // lane by micro-batch; empty: m modulo lanes
  bool operator==(const Lanes&) const = default;

  int count() const { return slot_of.empty() ? slots[0] : static_cast<int>(slot_of.size()); }
  int lane(int micro_batch) const {
    return of.empty() ? micro_batch % count() : of[static_cast<std::size_t>(micro_batch)];
  }
  int slot(int micro_batch, Life life) const {
    const int l = lane(micro_batch);
    return slot_of.empty() ? l : slot_of[static_cast<std::size_t>(l)][static_cast<std::size_t>(life)];
  }
};

/// How many micro-batches a program works on, and where.
struct MicroBatches {
  int count = 1;
  Lanes lanes = {};
  bool keeps_sends = false;      // what a backward sends is kept in slots, too
  bool splits_backward = false;  // gradients of weights are tasks by themselves
  int interleave = 1;            // parts of each, within its tasks

  /// That are alive at once: forward begun, last task not over.
  int slots() const { return lanes.slots[0]; }
};

/// Whether what a backward sends is kept in slots, as its stage may not wait long: its chunks take turns. Else its next backward
/// waits until it is taken.
bool keeps_sends(const Pipelining& p);

/// The micro-batches of a part. Each is alive from its forward to its last task there, and, where what its backward sends is
/// kept and taken by the same devices, or by whom a table says, until it is taken.
MicroBatches micro_batches_of(const Pipelining& p, int part);

}  // namespace shardwright
