#include "shardwright/verify/meetings.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// What tells ranks of the same stages apart.
class Signatures {
 public:
  Signatures(const Pipeline& pipeline, RankGroups& groups, int group)
      : pipeline_(pipeline), groups_(groups), first_(pipeline.first_rank(group)) {
    signatures_.resize(at(pipeline.stage(group).rank_count()));
    for (int stage : pipeline.stages_of(first_)) add_steps(stage);
    for (int c = 0; c < static_cast<int>(pipeline.crossings.size()); ++c) add_crossing(c);
    add_pattern();
  }

  /// Their ranks, ascending.
  std::vector<std::vector<int>> classes() const {
    std::map<std::vector<int>, std::vector<int>> by_signature;
    for (std::size_t r = 0; r < signatures_.size(); ++r)
      by_signature[signatures_[r]].push_back(first_ + static_cast<int>(r));
    std::vector<std::vector<int>> out;
    for (auto& [signature, ranks] : by_signature) out.push_back(std::move(ranks));
    return out;
  }

 private:
  /// A rank alone may have nothing to do for a step.
  void add_steps(int stage) {
    for (const PreparedTransfer& step : groups_.different_steps(stage)) {
      const std::vector<int>& table = groups_.table(step);
      for (std::size_t r = 0; r < signatures_.size(); ++r) {
        const int rank = first_ + static_cast<int>(r);
        const bool is_alone = groups_.ranks(table[at(rank)]).size() == 1;
        signatures_[r].push_back(is_alone && is_there(*groups_.transfer(step, rank), pipeline_.stage(stage)));
      }
      tables_.emplace(0, table);
    }
  }

  void add_crossing(int number) {
    const PlacedCrossing& c = pipeline_.crossings[at(number)];
    if (!pipeline_.has(c.from, first_) && !pipeline_.has(c.to, first_)) return;
    const PreparedTransfer like{
        .from_stage = c.from, .to_stage = c.to, .crossing = number, .over = {}, .parts = {}};
    const std::vector<int>& table = groups_.table(like);
    for (std::size_t r = 0; r < signatures_.size(); ++r) signatures_[r].push_back(table[at(first_) + r] >= 0);
    tables_.emplace(c.channel, table);
  }

  /// Which of its transfers a rank knows as one group.
  void add_pattern() {
    std::vector<std::pair<int, int>> seen;
    for (std::size_t r = 0; r < signatures_.size(); ++r) {
      seen.clear();
      for (const auto& [channel, table] : tables_) {
        const std::pair group{table[at(first_) + r], channel};
        signatures_[r].push_back(static_cast<int>(std::find(seen.begin(), seen.end(), group) - seen.begin()));
        seen.push_back(group);
      }
    }
  }

  const Pipeline& pipeline_;
  RankGroups& groups_;
  int first_;
  std::vector<std::vector<int>> signatures_;           // by rank
  std::set<std::pair<int, std::vector<int>>> tables_;  // channel, groups by rank
};

}  // namespace

std::vector<RankClass> classes_of(const Pipeline& pipeline) {
  RankGroups groups(pipeline);
  std::vector<std::vector<int>> ranks;
  for (int group = 0; group < pipeline.group_count(); ++group)
    for (std::vector<int>& alike : Signatures(pipeline, groups, group).classes())
      ranks.push_back(std::move(alike));
  std::ranges::sort(ranks);  // what is found first is then what it is rank by rank
  std::vector<int> firsts;
  for (const std::vector<int>& alike : ranks) firsts.push_back(alike.front());
  std::vector<RankStep> steps = steps_of(pipeline, firsts);
  std::vector<RankClass> out;
  for (std::size_t c = 0; c < ranks.size(); ++c)
    out.push_back({unrolled(std::move(steps[c])), std::move(ranks[c])});
  return out;
}

std::vector<RankClass> each_alone(std::vector<RankStep> steps) {
  std::vector<RankClass> out;
  for (RankStep& step : steps) {
    const int rank = step.rank;
    out.push_back({std::move(step), {rank}});
  }
  return out;
}

Meetings::Meetings(const std::vector<RankClass>& of, const Pipeline& p)
    : classes(of), pipeline(p), groups(p) {
  for (int c = 0; c < static_cast<int>(classes.size()); ++c) collect(c);
  if (!unsound.empty()) return;
  Places places;
  for (int s = 0; s < static_cast<int>(slots.size()); ++s) enter(s, places);
  for (std::size_t g = 0; g < gatherings.size(); ++g) {
    std::vector<int> different = gatherings[g].slots;
    std::sort(different.begin(), different.end());
    different.erase(std::unique(different.begin(), different.end()), different.end());
    kinds[different].push_back(static_cast<int>(g));
  }
}

void Meetings::collect(int rank_class) {
  const RankStep& step = classes[at(rank_class)].step;
  std::map<std::pair<int, int>, int> own;  // slots by group and channel
  std::map<const Transfer*, int> numbers;
  std::vector<int>& slot_of_transfer = slot_of.emplace_back();
  std::vector<int> place;  // by transfer: among those of its slot
  for (const PreparedTransfer& transfer : step.transfers) {
    if (!is_sound(step, transfer)) return;
    const auto [number, is_first] = numbers.try_emplace(transfer.parts.front().transfer.get());
    if (is_first) number->second = groups.number_of(transfer.group());
    const auto [slot, is_new] =
        own.try_emplace({number->second, transfer.channel()}, static_cast<int>(slots.size()));
    if (is_new)
      slots.push_back({.rank_class = rank_class, .group = number->second, .channel = transfer.channel()});
    std::vector<int>& prepared = slots[at(slot->second)].prepared;
    place.push_back(static_cast<int>(prepared.size()));
    prepared.push_back(static_cast<int>(slot_of_transfer.size()));
    slot_of_transfer.push_back(slot->second);
  }
  for (const Instruction& i : step.instructions)
    if (i.act == Act::start)
      slots[at(slot_of_transfer[at(i.what)])].started.push_back(
          {Act::start, 0, place[at(i.what)], i.micro_batch});
}

void Meetings::enter(int s, Places& places) {
  const Slot& slot = slots[at(s)];
  const RankClass& alike = classes[at(slot.rank_class)];
  const std::vector<int>* table =
      alike.ranks.size() > 1 ? &groups.table(alike.step.transfers[at(slot.prepared.front())]) : nullptr;
  for (int rank : alike.ranks) {
    const int group = rank == alike.step.rank ? slot.group : (*table)[at(rank)];
    const std::vector<int>& ranks = groups.ranks(group);
    const auto [place, is_new] =
        places.try_emplace({group, slot.channel}, static_cast<int>(gatherings.size()));
    if (is_new) gatherings.push_back({group, std::vector<int>(ranks.size(), -1)});
    gatherings[at(place->second)]
        .slots[static_cast<std::size_t>(std::ranges::lower_bound(ranks, rank) - ranks.begin())] = s;
  }
}

/// The transfer alone makes sense.
bool Meetings::is_sound(const RankStep& step, const PreparedTransfer& transfer) {
  const std::vector<int>& group = transfer.group();
  const auto bad = [&](std::string_view why) {
    unsound.push_back(violation("rank {}: {}: {}", step.rank, to_text(transfer, pipeline), why));
    return false;
  };
  if (!std::is_sorted(group.begin(), group.end()) ||
      std::adjacent_find(group.begin(), group.end()) != group.end())
    return bad("the ranks of the group should ascend");
  if (!std::binary_search(group.begin(), group.end(), step.rank)) return bad("it is not in that group");
  if (group.front() < 0 || group.back() >= pipeline.rank_count())
    return bad(fmt::format("there are {} ranks", pipeline.rank_count()));
  for (const Part& part : transfer.parts)
    if (part.transfer->group != group || part.transfer->channel != transfer.channel() ||
        part.transfer->kind != transfer.kind())
      return bad("what runs as one should have one kind and one group");
  return true;
}

}  // namespace shardwright
