// A whole step of the cluster: the programs of the stages, on neighbouring ranks, and how they are strung together.
//
// A network that is not cut has one stage. Stage s runs its tasks (plan/schedule.h), then its update; what crosses
// between stages is sent where it is made and received where it is read. Everything that a rank does in a step, and in
// which order, follows from this.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "shardwright/layout/transfer.h"
#include "shardwright/lower/program.h"
#include "shardwright/plan/schedule.h"
#include "shardwright/plan/stages.h"

namespace shardwright {

/// When a crossing happens.
enum class CrossingTime {
  step,         // before the first micro-batch: parameters and states
  micro_batch,  // with each
  update        // in the update
};

/// A crossing between the programs of two stages.
struct PlacedCrossing {
  int channel = 0;   // of its transfers: 1, 2, ...; those of steps are on 0
  int from = 0;      // stage
  int to = 0;        // stage
  ValueId sent;      // of `from`
  ValueId received;  // of `to`
  CrossingTime time = CrossingTime::micro_batch;
  Phase phase = Phase::forward;  // in which it is received
};

/// An output whose sequence stands in blocks (lower/sequence_order.h): who hands it out puts it back.
struct OutputInOrder {
  int output = 0;
  int dim = 0;
  std::int64_t blocks = 2;
};

/// Where memory of one stage begins in that of a rank.
struct PlacedArena {
  int stage = 0;
  std::int64_t own = 0;      // what no other stage uses
  std::int64_t passing = 0;  // what it shares
  std::int64_t host = 0;     // of the rank's on the host

  /// Of a place in the stage's arena, that in the rank's, behind which all that is on its host lies: from `arena_bytes` on.
  std::int64_t place(const Program& program, std::int64_t offset, std::int64_t arena_bytes) const {
    if (offset < program.own_bytes()) return own + offset;
    if (offset < program.arena_bytes) return passing + offset - program.own_bytes();
    return arena_bytes + host + offset - program.arena_bytes;
  }
};

struct Pipeline {
  std::vector<Program> stages;  // of an interleaved schedule, one for each chunk
  std::vector<PlacedCrossing> crossings;
  std::vector<StagedGraph::Output> outputs;
  std::vector<OutputInOrder> in_order;
  Pipelining pipelining;

  Pipeline() = default;
  /// One stage.
  Pipeline(Program program);  // NOLINT(google-explicit-constructor): a program is a pipeline of one stage

  int rank_count() const;
  int stage_count() const { return static_cast<int>(stages.size()); }
  int micro_batches() const { return pipelining.micro_batches; }
  int batch_parts() const { return pipelining.batch_parts(); }
  /// Groups of ranks: stage s runs on group s % groups.
  int group_count() const { return stage_count() / pipelining.schedule.chunks; }
  int group_of(int rank) const;
  int first_rank(int stage) const;
  /// Whether `rank` runs `stage`.
  bool has(int stage, int rank) const {
    return rank >= first_rank(stage) && rank < first_rank(stage) + this->stage(stage).rank_count();
  }
  /// What `rank` runs, in the order of the stages.
  std::vector<int> stages_of(int rank) const;
  /// Bytes of the arenas of all its stages, one after the other, and behind them what they share.
  std::int64_t arena_bytes(int rank) const;
  /// Likewise, of what they have on the host.
  std::int64_t host_bytes(int rank) const;
  const Program& stage(int s) const { return stages[static_cast<std::size_t>(s)]; }
  /// Where the arenas of its stages lie in that of `rank`, by the order of `stages_of`.
  std::vector<PlacedArena> arenas_of(int rank) const;

  /// Adds a crossing between stages that are there, for each part of a micro-batch one.
  void connect(const Crossing& c);
  void place(int from, int to, ValueId sent, ValueId received);
  /// What the ranks of both stages take part in; the channel is the crossing's.
  TransfersBetween transfers_of(const PlacedCrossing& c) const;

  /// The type of an output of the whole step: scalars are means over the parts of the batch, other values stand side by
  /// side along dim 0.
  Type output_type(const StagedGraph::Output& output) const;
  const std::string& output_name(std::size_t i) const;
};

/// How a value of `stage` lies on the ranks of the pipeline.
Placement placement_of(const Pipeline& pipeline, int stage, ValueId v);

}  // namespace shardwright
