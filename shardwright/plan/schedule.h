// The order in which stages work on micro-batches.
//
// A step runs each micro-batch forward through the stages and backward again, then every stage updates. With S stages
// and M micro-batches:
//
//   gpipe          all forwards, then all backwards: M micro-batches are alive in every stage
//   1f1b           stage s runs S - s forwards, then a backward and a forward in turn: at most S - s are alive
//   interleaved:V  the devices of a stage have V chunks of the network: chunk c of S V runs on those of stage c mod S.
//                  Micro-batches go S at a time through one chunk after the other; backwards begin as soon as there are
//                  any, and then a forward and a backward take turns
//
// The first two leave a stage idle for (S - 1) / (M + S - 1) of the step, the third for (S - 1) / (V M) of the time in
// which it works, if S divides M (Narayanan et al., 2021). One stage runs each micro-batch forward and backward in turn:
// gradient accumulation.
//
// Where plans and programs speak of stages, each chunk is one.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct Schedule {
  enum Kind { gpipe, one_forward_one_backward, interleaved };

  Kind kind = one_forward_one_backward;
  int chunks = 1;  // per stage

  constexpr Schedule() = default;
  constexpr Schedule(Kind k,
                     int of_stage = 1)  // NOLINT(google-explicit-constructor): a name is enough for most
      : kind(k), chunks(of_stage) {}
  auto operator<=>(const Schedule&) const = default;
};
/// `gpipe`, `1f1b`, `interleaved:2`.
std::string name_of(const Schedule& schedule);
/// Throws: Error that lists them.
Schedule schedule_called(std::string_view name);

/// One micro-batch's pass through one chunk.
struct Task {
  Phase phase = Phase::forward;  // or backward
  int micro_batch = 0;
  int chunk = 0;  // of the stage
  bool operator==(const Task&) const = default;
};

constexpr int most_micro_batches = 1 << 16;

/// The loss of a batch is the mean of its micro-batches' losses: that of the whole batch if the loss is a mean over
/// samples. Of a loss that is a sum, loss and gradients are 1/micro_batches of the whole batch's.
struct Pipelining {
  Schedule schedule;
  int stages = 1;
  int micro_batches = 1;
  auto operator<=>(const Pipelining&) const = default;

  /// Chunks of all stages.
  int parts() const { return stages * schedule.chunks; }
};

/// How many micro-batches a program works on, in how many slots.
struct MicroBatches {
  int count = 1;
  int slots = 1;
  bool keeps_sends = false;  // what a backward sends is kept in slots, too
};

/// Throws: Error unless there are stages and micro-batches, and not too many.
void check(const Pipelining& p);

/// The tasks of the devices of `stage`, in order. Each phase of a chunk takes the micro-batches in their order.
std::vector<Task> tasks_of(const Pipelining& p, int stage);

/// How many forwards of chunks the devices of `stage` run before the first backward, if there are as many.
int warm_up_of(const Pipelining& p, int stage);

/// The micro-batches of a part: of chunk part / stages of stage part % stages. Slots are as many as are alive in it at
/// once: forward begun, backward not finished. Micro-batch m uses slot m % slots.
MicroBatches micro_batches_of(const Pipelining& p, int part);

}  // namespace shardwright
