#include "shardwright/verify/verify.h"

#include <algorithm>
#include <set>

namespace shardwright {
namespace {

Proof count(const std::vector<RankInstructions>& ranks, const Pipeline& pipeline) {
  Proof out{.ranks = static_cast<int>(ranks.size()),
            .stages = pipeline.stage_count(),
            .micro_batches = pipeline.micro_batches()};
  std::set<std::pair<std::vector<int>, int>> groups;
  for (const RankInstructions& rank : ranks) {
    out.instructions += static_cast<std::int64_t>(rank.instructions.size());
    for (const PreparedTransfer& t : rank.transfers) {
      if (!t.moves_between_ranks()) continue;
      groups.insert({t.group(), t.channel()});
      out.transfers += t.group().front() == rank.rank;
    }
  }
  out.groups = static_cast<int>(groups.size());
  for (const Program& program : pipeline.stages) {
    out.values += static_cast<std::int64_t>(program.graph.values.size());
    out.arena_bytes = std::max(out.arena_bytes, program.arena_bytes);
  }
  return out;
}

}  // namespace

Violations violations(const std::vector<RankInstructions>& ranks, const Pipeline& pipeline) {
  Violations out = mismatches(ranks, pipeline);
  if (out.empty()) out = endless_waits(ranks, pipeline);
  if (out.empty()) out = incomplete_layouts(pipeline);
  if (out.empty()) out = broken_rules(pipeline);
  if (out.empty()) out = overwritten_values(ranks, pipeline);
  return out;
}

Proof prove(const Pipeline& pipeline) {
  const std::vector<RankInstructions> ranks = instructions_of(pipeline);
  const Violations found = violations(ranks, pipeline);
  if (!found.empty()) throw error("{}", found.front().text);
  return count(ranks, pipeline);
}

}  // namespace shardwright
