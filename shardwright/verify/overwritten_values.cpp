// The arena holds what is read from it.
//
// The step of a rank is played on a map of its arena that says of every byte which value was written there last, and
// for which micro-batch. Whatever is read must still be there, whole. That finds two values alive in one place, slots
// that are too few, a transfer that starts before its operand is made or is finished after its result is read, and
// what is overwritten while it is on its way. Of buffers it takes where they lie and nothing of their lives, with which
// assign_buffers reasons. Bytes are those of the rank that holds most; ranks whose lists are the same are played
// once. A rank with several stages has one arena, in which some of it serves all of them in turn.

#include <algorithm>

#include "shardwright/verify/stage_in_arena.h"

namespace shardwright {
namespace {

/// The arena of both ranks goes through the same.
bool are_alike(const RankStep& a, const RankStep& b) {
  const auto same = [](const PreparedTransfer& x, const PreparedTransfer& y) {
    return x.node == y.node && x.crossing == y.crossing && x.to_stage == y.to_stage &&
           std::equal(x.parts.begin(), x.parts.end(), y.parts.begin(), y.parts.end(),
                      [](const Part& p, const Part& q) {
                        return p.from == q.from && p.to == q.to && p.ids == q.ids &&
                               p.transfer->kind == q.transfer->kind;
                      });
  };
  return a.instructions == b.instructions &&
         std::equal(a.transfers.begin(), a.transfers.end(), b.transfers.begin(), b.transfers.end(), same);
}

/// Of what crosses between two stages of `rank`, whatever is written where it is read.
Violations overlaps(const RankStep& rank, const Pipeline& pipeline,
                    const std::map<int, const StageInArena*>& stages, const Instruction& i) {
  if (i.act != Act::start) return {};
  const PreparedTransfer& t = rank.transfer(i);
  const auto from = stages.find(t.from_stage), to = stages.find(t.to_stage);
  if (t.from_stage == t.to_stage || from == stages.end() || to == stages.end()) return {};
  for (const Part& a : t.parts)
    for (const Part& b : t.parts) {
      if (!a.from.is_valid() || !b.to.is_valid()) continue;
      const auto read = from->second->place_of(a.from, i.micro_batch),
                 made = to->second->place_of(b.to, i.micro_batch);
      if (std::max(read.first, made.first) >= std::min(read.second, made.second)) continue;
      return {violation("rank {}: {}: %{} is written where %{} is read", rank.rank,
                        to_text(rank, i, pipeline), pipeline.stage(t.to_stage).graph.value(b.to).name,
                        pipeline.stage(t.from_stage).graph.value(a.from).name)};
    }
  return {};
}

/// Of a step that is played on the memory of its rank.
Violations of_rank(const RankStep& rank, const Pipeline& pipeline) {
  RankMemory memory(pipeline.arena_bytes(rank.rank) + pipeline.host_bytes(rank.rank));
  std::vector<StageInArena> stages;
  for (const PlacedArena& placed : pipeline.arenas_of(rank.rank))
    stages.emplace_back(rank, pipeline, placed, memory);
  std::map<int, const StageInArena*> by_number;
  for (const StageInArena& stage : stages) by_number.emplace(stage.number(), &stage);
  Violations out;
  const auto is_right = [&](const auto& act) {
    for (StageInArena& stage : stages) {
      act(stage);
      if (stage.violations().empty()) continue;
      out = stage.violations();
      return false;
    }
    return true;
  };
  if (!is_right([](StageInArena& stage) { stage.begin_step(); })) return out;
  for (const Instruction& i : rank.instructions) {
    if (out = overlaps(rank, pipeline, by_number, i); !out.empty()) return out;
    if (!is_right([&](StageInArena& stage) { stage.play(i); })) return out;
  }
  is_right([](StageInArena& stage) { stage.end_step(); });
  return out;
}

}  // namespace

Violations overwritten_values(const std::vector<RankClass>& classes, const Pipeline& pipeline) {
  std::vector<const RankStep*> played;
  for (const auto& [rank, ranks] : classes) {
    if (std::any_of(played.begin(), played.end(), [&](const auto* p) { return are_alike(*p, rank); }))
      continue;
    played.push_back(&rank);
    if (Violations out = of_rank(rank, pipeline); !out.empty()) return out;
  }
  return {};
}

}  // namespace shardwright
