// The order in which stages work on micro-batches.
//
// A step runs each micro-batch forward through the stages and backward again, then every stage updates. A schedule gives
// the devices of a stage their tasks in order: a pass of a micro-batch through a section of a chunk of the network. The
// backward may be cut in two: gradients of inputs, for which the stage before waits, and gradients of weights, for which
// nobody does (lower/split_backward.h). plan/schedules/ has a file for each family.
//
// Stages may have several chunks of the network. They lie on the devices in rounds (chunk c of S V on those of stage
// c mod S), as a V (down the stages and up again), or as a table says. Where plans and programs speak of stages, each
// chunk is one.
#pragma once

#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// One micro-batch's pass through a section of one chunk.
struct Task {
  Phase phase = Phase::forward;  // or backward, weights: never the update
  int micro_batch = 0;
  int chunk = 0;  // of the stage, in the order of the network
  auto operator<=>(const Task&) const = default;
};

/// How chunks lie on the devices of stages.
enum class ChunkOrder : std::uint8_t { rounds, v, table };

struct Schedule {
  std::string name = "1f1b";
  int argument = 0;  // `2` of `interleaved:2`
  int chunks = 1;    // per stage
  ChunkOrder order = ChunkOrder::rounds;
  bool splits_backward = false;
  std::vector<std::vector<Task>> rows = {};  // of a table: by stage
  std::vector<int> stages = {};              // of a table: by part, whose devices it is on

  static Schedule one_forward_one_backward() { return {}; }
  static Schedule gpipe();
  static Schedule interleaved(int chunks);
  auto operator<=>(const Schedule&) const = default;
};
/// `gpipe`, `interleaved:2`; of a table `table`.
std::string name_of(const Schedule& schedule);
/// The same, but of a table its rows: `table 0F0,0F1,0B0,0B1 | 1F0,1B0,1F1,1B1`.
std::string to_text(const Schedule& schedule);
/// The schedule that either text says. Throws: Error that lists them.
Schedule schedule_called(std::string_view text);
/// As a user gives it: the same, or the name of a file of a table, `rows.csv` (plan/schedule_table.h).
Schedule schedule_given(std::string_view text);

constexpr int most_micro_batches = 1 << 16;

/// The loss of a batch is the mean of its parts' losses: that of the whole batch if the loss is a mean over samples. Of a
/// loss that is a sum, loss and gradients are 1/batch_parts() of the whole batch's.
struct Pipelining {
  Schedule schedule;
  int stages = 1;
  int micro_batches = 1;
  /// Each is cut into so many parts, the communication of one of which runs beside the computation of another
  /// (passes/interleave_parts.cpp).
  int interleave = 1;
  auto operator<=>(const Pipelining&) const = default;

  /// Of which each is what the network is built for.
  int batch_parts() const { return micro_batches * interleave; }
  /// Chunks of all stages.
  int parts() const { return stages * schedule.chunks; }
  /// On whose devices a part is.
  int stage_of(int part) const;
  /// What the devices of a stage have, in the order of the network.
  std::vector<int> parts_of(int stage) const;
  /// Which chunk of its stage a part is.
  int chunk_of(int part) const;
};

/// A kind of schedule.
struct ScheduleDef {
  std::string name;
  std::string argument = {};  // `V` of `interleaved:V`
  int least = 0, most = 0;  // that it may be; the least one may be left out if it is 1 and `chunks` is given
  std::string doc;          // behind the name: `V chunks per stage, in rounds`
  int chunks = 1;           // 0: the argument says it
  ChunkOrder order = ChunkOrder::rounds;
  bool splits_backward = false;
  bool is_for_stages = true;       // one stage has no use for it
  std::vector<int> searched = {};  // arguments with which a search tries it; 0: without
  std::vector<int> near = {};      // and those with which it does where it is the best so far
  /// The tasks of the devices of a stage, in order.
  std::vector<Task> (*tasks)(const Pipelining&, int stage) = nullptr;
  /// Forwards of chunks that they run before the first backward, if there are as many; null: it has no such order.
  int (*warm_up)(const Pipelining&, int stage) = nullptr;
  /// Why it cannot be so; empty: it can.
  std::string (*refusal)(const Pipelining&) = nullptr;
};
/// By the names of files in plan/schedules/.
std::span<const ScheduleDef> all_schedules();
const ScheduleDef& def_of(const Schedule& schedule);
/// Of `def`, with its argument; 0: without.
Schedule schedule_of(const ScheduleDef& def, int argument);
/// `gpipe, 1f1b, interleaved:V, ...`: how they are called.
std::vector<std::string> schedule_names();

/// Throws: Error unless there are stages and micro-batches, not too many, and as the schedule wants them.
void check(const Pipelining& p);
/// Why the schedule cannot be so of so many stages and micro-batches; empty: it can.
std::string refusal_of(const Pipelining& p);

/// The tasks of the devices of `stage`, in order. One stage takes each micro-batch forward and backward in turn: gradient
/// accumulation.
std::vector<Task> tasks_of(const Pipelining& p, int stage);

}  // namespace shardwright
