// Members of a group agree on its transfers.
//
// A communicator knows a transfer by its group, its channel and its place in the order in which the group prepares them;
// so that is how two ranks' transfers are paired here, and then everything else about them must be equal or fit. Where
// the same classes meet, the same is compared, once.

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/verify/meetings.h"

namespace shardwright {
namespace {

class Matching {
 public:
  explicit Matching(const Meetings& meetings) : meetings_(meetings), pipeline_(meetings.pipeline) {}

  Violations find() {
    for (const Gathering& gathering : meetings_.gatherings)
      if (std::ranges::find(gathering.slots, -1) != gathering.slots.end()) report_missing(gathering);
    for (const auto& [slots, gatherings] : meetings_.kinds)
      if (slots.front() >= 0) compare(slots);
    return std::move(out_);
  }

 private:
  const RankStep& step(const Slot& slot) const { return meetings_.step_of(slot); }
  const PreparedTransfer& transfer(const Slot& slot, std::size_t t) const {
    return step(slot).transfers[at(slot.prepared[t])];
  }

  void compare(const std::vector<int>& slots) {
    const Slot& first = meetings_.slots[at(slots.front())];
    for (int s : slots) {
      const Slot& member = meetings_.slots[at(s)];
      compare_prepared(first, member);
      if (&member != &first) compare_started(first, member);
    }
  }

  void report_missing(const Gathering& gathering) {
    const std::vector<int>& ranks = meetings_.groups.ranks(gathering.group);
    const auto missing = std::ranges::find(gathering.slots, -1);
    const int known = *std::ranges::find_if(gathering.slots, [](int s) { return s >= 0; });
    const int r = ranks[static_cast<std::size_t>(missing - gathering.slots.begin())];
    const Slot& slot = meetings_.slots[at(known)];
    for (const RankClass& other : meetings_.classes)
      if (std::ranges::binary_search(other.ranks, r))
        out_.push_back(violation("rank {}: {} but rank {}: {}", step(slot).rank,
                                 text(slot, slot.prepared.front()), r,
                                 counterpart(other.step, transfer(slot, 0))));
  }

  /// What a rank has in place of a transfer that it does not have in the same group.
  std::string counterpart(const RankStep& rank, const PreparedTransfer& wanted) const {
    for (const PreparedTransfer& t : rank.transfers)
      if (t.crossing == wanted.crossing && t.node == wanted.node && t.to_stage == wanted.to_stage)
        return to_text(t, pipeline_);
    return "no such transfer";
  }

  std::string text(const Slot& m, int transfer) const {
    return to_text(step(m).transfers[at(transfer)], pipeline_);
  }

  void disagree(const Slot& a, const std::string& one, const Slot& b, const std::string& other,
                std::string_view why) {
    out_.push_back(violation("rank {}: {} but rank {}: {}{}", step(a).rank, one, step(b).rank, other, why));
  }

  void compare_prepared(const Slot& first, const Slot& member) {
    const std::size_t count = std::min(first.prepared.size(), member.prepared.size());
    for (std::size_t t = 0; t < count; ++t) {
      const PreparedTransfer& a = transfer(member, t);
      const PreparedTransfer& b = transfer(first, t);
      const std::string why = difference(a, b);
      if (why.empty() && a.to_stage == b.to_stage) continue;
      return disagree(member, text(member, member.prepared[t]), first, text(first, first.prepared[t]), why);
    }
    if (first.prepared.size() == member.prepared.size()) return;
    const bool is_less = member.prepared.size() < first.prepared.size();
    const Slot &more = is_less ? first : member, &less = is_less ? member : first;
    disagree(more, text(more, more.prepared[count]), less, counterpart(step(less), transfer(more, count)),
             "");
  }

  /// In what two members' sides of a transfer differ that they should share; empty if in nothing.
  static std::string difference(const PreparedTransfer& a, const PreparedTransfer& b) {
    const auto differ = [](std::string_view what) { return fmt::format(" ({} differ)", what); };
    if (a.crossing != b.crossing) return differ("crossings");
    if (a.crossing < 0 && a.node != b.node) return differ("nodes");
    if (a.kind() != b.kind()) return differ("kinds");
    if (a.copies != b.copies) return differ("numbers of copies");
    if (a.parts.size() != b.parts.size()) return differ("numbers of tensors");
    for (std::size_t p = 0; p < a.parts.size(); ++p) {
      const Part &x = a.parts[p], &y = b.parts[p];
      if (x.dtype != y.dtype) return differ("types");
      if (x.transfer->reduces != y.transfer->reduces) return differ("kinds");
      if (x.transfer->reduces && x.transfer->reduction != y.transfer->reduction) return differ("reductions");
      if (a.crossing < 0 && (x.from != y.from || x.to != y.to)) return differ("values");
      if (x.transfer->reduces && x.transfer->from_shape != y.transfer->from_shape) return differ("shapes");
    }
    return "";
  }

  void compare_started(const Slot& first, const Slot& member) {
    const std::size_t count = std::min(first.started.size(), member.started.size());
    for (std::size_t i = 0; i < count; ++i)
      if (member.started[i] != first.started[i])
        return disagree(member, started_text(member, i), first, started_text(first, i), " in its place");
    if (first.started.size() == member.started.size()) return;
    const bool is_less = member.started.size() < first.started.size();
    const Slot &more = is_less ? first : member, &less = is_less ? member : first;
    disagree(more, started_text(more, count), less, "nothing more of this group", "");
  }

  std::string started_text(const Slot& m, std::size_t i) const {
    Instruction instruction = m.started[i];
    instruction.what = m.prepared[at(instruction.what)];
    return to_text(step(m), instruction, pipeline_);
  }

  const Meetings& meetings_;
  const Pipeline& pipeline_;
  Violations out_;
};

}  // namespace

Violations mismatches(const Meetings& meetings) {
  return meetings.unsound.empty() ? Matching(meetings).find() : meetings.unsound;
}

}  // namespace shardwright
