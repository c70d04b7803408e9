// The order in which a stage works on micro-batches.
//
// A step runs each micro-batch forward through the stages and backward again, then every stage updates. With S stages
// and M micro-batches:
//
//   gpipe  all forwards, then all backwards: M micro-batches are alive in every stage
//   1f1b   stage s runs S - s forwards, then a backward and a forward in turn: at most S - s are alive
//
// Both leave a stage idle for (S - 1) / (M + S - 1) of the step (Narayanan et al., 2021). One stage runs each micro-
// batch forward and backward in turn: gradient accumulation.
#pragma once

#include <string_view>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

enum class Schedule { gpipe, one_forward_one_backward };
/// `gpipe`, `1f1b`.
std::string_view name_of(Schedule schedule);
/// Throws: Error that lists them.
Schedule schedule_called(std::string_view name);

/// One micro-batch's pass through one stage.
struct Task {
  Phase phase = Phase::forward;  // or backward
  int micro_batch = 0;
  bool operator==(const Task&) const = default;
};

constexpr int most_micro_batches = 1 << 16;

/// The loss of a batch is the mean of its micro-batches' losses: that of the whole batch if the loss is a mean over
/// samples. Of a loss that is a sum, loss and gradients are 1/micro_batches of the whole batch's.
struct Pipelining {
  Schedule schedule = Schedule::one_forward_one_backward;
  int stages = 1;
  int micro_batches = 1;
  bool operator==(const Pipelining&) const = default;
};

/// How many micro-batches a program works on, in how many slots.
struct MicroBatches {
  int count = 1;
  int slots = 1;
};

/// Throws: Error unless there are stages and micro-batches, and not too many.
void check(const Pipelining& p);

/// The tasks of `stage`, in order. Each phase takes the micro-batches in their order.
std::vector<Task> tasks_of(const Pipelining& p, int stage);

/// The most micro-batches that are alive in `stage` at once: forward begun, backward not finished. Micro-batch m uses
/// slot m % slots.
int slots_of(const Pipelining& p, int stage);

}  // namespace shardwright
