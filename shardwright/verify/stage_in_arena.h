// What one stage of a rank does to the memory of the rank, played on a map of its bytes (overwritten_values.cpp).
#pragma once

#include <algorithm>
#include <map>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/kept_leaves.h"
#include "shardwright/verify/byte_map.h"
#include "shardwright/verify/violation.h"

namespace shardwright {

/// A value that was written, of which micro-batch and stage.
struct ByteWriter {
  const Graph* graph = nullptr;
  ValueId value;
  int micro_batch = 0;
};

/// Memory of a rank, and behind it what is on its host, of all its stages.
struct RankMemory {
  explicit RankMemory(std::int64_t all) : bytes(all), writers{{}} {}

  ByteMap bytes;
  std::vector<ByteWriter> writers;  // by stamp
};

/// What one stage of a rank has in its memory.
class StageInArena {
 public:
  StageInArena(const RankStep& rank, const Pipeline& pipeline, const PlacedArena& placed, RankMemory& memory)
      : rank_(rank),
        pipeline_(pipeline),
        placed_(placed),
        stage_(placed.stage),
        arena_bytes_(pipeline.arena_bytes(rank.rank)),
        program_(pipeline.stage(stage_)),
        graph_(program_.graph),
        memory_(memory),
        written_(graph_.values.size(), std::vector<Written>(at(std::ranges::max(program_.lanes.slots)))),
        transfers_checked_(rank.transfers.size(), std::vector<bool>(at(program_.lanes.count()))) {
    for (const Fusion& f : fusions_of(graph_)) fusions_.emplace(f.begin.index, f);
  }

  /// What it has before the step.
  void begin_step();
  /// The part of the stage in an instruction of the rank.
  void play(const Instruction& i);
  /// The next step reads what is kept.
  void end_step() {
    for (const Node& node : graph_.nodes)
      if (node.op->kind == OpKind::parameter || node.op->kind == OpKind::state) read(node.results.front(), 0);
  }
  int number() const { return stage_; }
  const Violations& violations() const { return out_; }
  /// Where the rank has a value of the stage; empty where it is never in memory.
  std::pair<std::int64_t, std::int64_t> place_of(ValueId v, int micro_batch) const {
    return in_memory(v) ? std::pair(begin(v, micro_batch), end(v, micro_batch))
                        : std::pair<std::int64_t, std::int64_t>();
  }

 private:
  struct Written {
    Stamp stamp = 0;
    int micro_batch = -1;
    bool is_on_its_way = false;  // peers write it until its transfer is finished
  };
  bool is_mine(const PreparedTransfer& t) const { return t.from_stage == stage_ || t.to_stage == stage_; }
  ValueId from(const PreparedTransfer& t, const Part& part) const {
    return t.from_stage == stage_ ? part.from : ValueId();
  }
  ValueId to(const PreparedTransfer& t, const Part& part) const {
    return t.to_stage == stage_ ? part.to : ValueId();
  }

  /// What has to stay as it is while it is on its way.
  std::vector<ValueId> given(const PreparedTransfer& t, const Part& part) const;

  bool in_memory(ValueId v) const { return program_.offset(v) != no_place; }
  std::int64_t size(ValueId v) const { return graph_.value(v).type.bytes(); }
  const std::string& name(ValueId v) const { return graph_.value(v).name; }
  const Node& producer(ValueId v) const { return graph_.node(graph_.value(v).producer); }
  int slot(ValueId v, int micro_batch) const {
    const Buffer* buffer = program_.buffer(v);
    return buffer ? program_.slot(*buffer, micro_batch) : 0;
  }
  /// In the memory of the rank.
  std::int64_t begin(ValueId v, int micro_batch) const {
    return placed_.place(program_, program_.offset(v, micro_batch), arena_bytes_);
  }
  std::int64_t end(ValueId v, int micro_batch) const { return begin(v, micro_batch) + size(v); }
  Written& written(ValueId v, int micro_batch) { return written_[at(v.index)][at(slot(v, micro_batch))]; }

  template <class... A>
  void bad(fmt::format_string<A...> text, A&&... a) {
    const std::string when = now_ ? to_text(rank_, *now_, pipeline_) : "before the step";
    out_.push_back(violation("rank {}: {}: {}", rank_.rank, when, fmt::format(text, std::forward<A>(a)...)));
  }

  /// Every place lies in the arena.
  bool fits();

  void write(ValueId v, int micro_batch);

  /// Of a value that is another one seen otherwise, that one: it is there as soon as that is.
  ValueId source(ValueId v) const;

  /// Of which micro-batch a value should be: what the update reads is of the last one to make it.
  int made_for(ValueId v, int micro_batch) const {
    const Phase made = producer(v).phase;
    return phase_ == Phase::update && made != Phase::update ? last_of_[made] : micro_batch;
  }

  /// To which phase an instruction of this stage belongs.
  Phase phase_of(const Instruction& i) const;

  void read(ValueId v, int micro_batch) { read(v, micro_batch, micro_batch); }
  void read(ValueId v, int place, int micro_batch);

  void expect_intact(ValueId v, int micro_batch, Stamp stamp, std::string_view what);

  bool overlap(ValueId a, ValueId b, int micro_batch) const {
    return in_memory(a) && in_memory(b) && begin(a, micro_batch) < end(b, micro_batch) &&
           begin(b, micro_batch) < end(a, micro_batch);
  }
  bool same_place(ValueId a, ValueId b, int micro_batch) const {
    return begin(a, micro_batch) == begin(b, micro_batch) && size(a) == size(b);
  }

  void run(const Instruction& i);

  /// The result of an all_reduce is written by its peers from the start on; that of a copy between spaces too.
  static bool is_written_at_once(const Part& part) { return is_written_from_start(part.transfer->kind); }

  void start(const Instruction& i);

  /// Operands and results do not overlap, except that all_reduce and mask may work in place.
  void check_places(const PreparedTransfer& t, int micro_batch);

  void finish(const Instruction& i);

  void compute(const Fusion& fusion, int micro_batch);

  void copy(const Node& node, int micro_batch);

  /// The result of a step is its operand; of what is received, this rank holds nothing.
  void keep(const Fusion& fusion, int micro_batch);

  /// Nodes that run together take turns block by block: what one writes, the others read only if they make it so.
  void check_turns(const Fusion& fusion, int micro_batch);

  /// `reader` has read every element of `operand` before `writer` writes `result` there, or `operand` is made later.
  bool may_take_turns(NodeId reader, ValueId operand, NodeId maker, NodeId writer, ValueId result,
                      int micro_batch) const;

  /// Leaves that change behind a phase: at the end of the step all at once.
  void replace(Phase phase, int micro_batch);

  const RankStep& rank_;
  const Pipeline& pipeline_;
  PlacedArena placed_;
  int stage_;
  std::int64_t arena_bytes_;  // of the rank
  const Program& program_;
  const Graph& graph_;
  RankMemory& memory_;
  std::vector<std::vector<Written>> written_;                     // by value and slot
  std::map<int, Fusion> fusions_;                                 // by first node
  std::map<std::pair<int, int>, std::vector<Stamp>> on_its_way_;  // operands, by transfer and copy
  std::vector<std::vector<bool>> transfers_checked_;              // by transfer and lane
  OfPhases<int> last_of_;                                         // the last micro-batch of each
  Phase phase_ = Phase::forward;                                  // of what runs
  const Instruction* now_ = nullptr;
  Violations out_;
};

}  // namespace shardwright
