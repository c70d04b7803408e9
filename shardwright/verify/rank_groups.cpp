#include "shardwright/verify/rank_groups.h"

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
RankGroups::RankGroups(const Pipeline& pipeline)
    : pipeline_(pipeline), transfers_(pipeline), fusions_(pipeline.stages.size()) {
  for (std::size_t s = 0; s < fusions_.size(); ++s)
    for (const Fusion& f : fusions_of(pipeline.stages[s].graph)) fusions_[s].emplace(f.begin, f);
}

int RankGroups::number_of(const std::vector<int>& group) {
  const auto [place, is_new] = numbers_.try_emplace(group, static_cast<int>(groups_.size()));
  if (is_new) groups_.push_back(&place->first);
  return place->second;
}

Fusion RankGroups::fusion(int stage, NodeId begin) const { return fusions_[at(stage)].at(begin); }

std::optional<PreparedTransfer> RankGroups::transfer(const PreparedTransfer& like, int rank) {
  if (like.crossing >= 0) return transfers_.of_crossing(like.crossing, rank);
  return transfers_.of_steps(like.to_stage, fusion(like.to_stage, like.node), rank);
}

const std::vector<int>& RankGroups::table(const PreparedTransfer& like) {
  const bool crosses = like.crossing >= 0;
  const int first = pipeline_.first_rank(like.to_stage);
  std::vector<int>& out =
      crosses ? crossings_[like.crossing] : steps_[transfer(like, first)->parts.front().transfer.get()];
  if (!out.empty()) return out;
  out.resize(at(pipeline_.rank_count()), -1);
  for (int stage : {like.from_stage, like.to_stage})
    for (int r = 0; r < pipeline_.stage(stage).rank_count(); ++r) {
      const int rank = pipeline_.first_rank(stage) + r;
      if (out[at(rank)] >= 0) continue;
      const std::optional<PreparedTransfer> own = transfer(like, rank);
      if (!own) continue;
      const int number = number_of(own->group());
      for (int member : own->group()) out[at(member)] = number;
    }
  return out;
}

std::vector<PreparedTransfer> RankGroups::different_steps(int stage) {
  const Program& program = pipeline_.stage(stage);
  std::set<std::pair<const Transfer*, bool>> seen;
  std::vector<PreparedTransfer> out;
  for (const auto& [begin, fusion] : fusions_[at(stage)]) {
    if (program.graph.node(begin).op->kind != OpKind::step) continue;
    PreparedTransfer own = transfers_.of_steps(stage, fusion, pipeline_.first_rank(stage));
    const Part& part = own.parts.front();
    const bool stays = program.offset(part.from) == program.offset(part.to);
    if (seen.emplace(part.transfer.get(), stays).second) out.push_back(std::move(own));
  }
  return out;
}

}  // namespace shardwright
