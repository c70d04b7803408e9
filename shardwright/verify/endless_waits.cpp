// No cycle of waits: the step is played, instruction by instruction, with nothing computed.
//
// A start waits for nobody. A finish waits until all members of the group have started, then, if the rank gives
// something, until all that take have taken theirs (runtime/communicator/shared.h). Messages between hosts wait for no
// more than that, because a rank that waits for anything moves on all that it has started
// (runtime/communicator/mpi.cpp). What has happened once is never undone, so the order in which ranks are let on does
// not matter: either all come to their end, whatever the speed of each, or the ranks that cannot move wait for one
// another.
//
// A class of ranks is played as one: it waits until all classes that its ranks meet, directly or over others, have
// started. That is more than any of its ranks waits for, so if the classes come to their end, so do the ranks.

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/verify/meetings.h"

namespace shardwright {
namespace {

/// A transfer that a group runs once.
struct Meeting {
  int members = 0;  // classes, each with a slot of its own
  int started = 0;
  int taken = 0;             // members that take nothing, and those that have taken
  std::vector<int> waiting;  // classes
};

class Play {
 public:
  explicit Play(const Meetings& meetings)
      : meetings_of_classes_(meetings),
        classes_(meetings.classes),
        pipeline_(meetings.pipeline),
        next_(classes_.size()),
        has_taken_(classes_.size()) {
    join();
  }

  Violations find() {
    for (std::size_t c = 0; c < classes_.size(); ++c) meet(c);
    if (!out_.empty()) return std::move(out_);
    std::vector<int> ready;
    for (int r = 0; r < static_cast<int>(classes_.size()); ++r) ready.push_back(r);
    while (!ready.empty()) {
      const int rank = ready.back();
      ready.pop_back();
      run(rank, ready);
    }
    for (std::size_t r = 0; r < classes_.size(); ++r)
      if (next_[r] < list(static_cast<int>(r)).instructions.size()) {
        report_cycle(static_cast<int>(r));
        break;
      }
    return std::move(out_);
  }

 private:
  const RankStep& list(int c) const { return classes_[at(c)].step; }

  /// Slots that meet, directly or over others, have one head.
  void join() {
    heads_.resize(meetings_of_classes_.slots.size());
    std::iota(heads_.begin(), heads_.end(), 0);
    for (const auto& [slots, gatherings] : meetings_of_classes_.kinds)
      for (int s : slots)
        heads_[at(head_of(std::max(s, slots.front())))] = head_of(std::min(s, slots.front()));
    members_.resize(heads_.size());
    for (std::size_t s = 0; s < heads_.size(); ++s) ++members_[at(head_of(static_cast<int>(s)))];
    of_head_.resize(heads_.size());
  }
  int head_of(int slot) {
    int& above = heads_[at(slot)];
    return above == slot ? slot : above = head_of(above);
  }

  /// Gives every start and finish of a class its meeting: the group's transfers are counted as they start.
  void meet(std::size_t c) {
    const RankStep& rank = classes_[c].step;
    std::map<int, int> started;                                       // by slot
    std::map<std::pair<int, int>, std::pair<int, Instruction>> open;  // by transfer and copy: on its way
    std::vector<int>& own = meeting_of_.emplace_back(rank.instructions.size(), -1);
    for (std::size_t i = 0; i < rank.instructions.size(); ++i) {
      const Instruction& instruction = rank.instructions[i];
      if (instruction.act != Act::start && instruction.act != Act::finish) continue;
      const PreparedTransfer& t = rank.transfer(instruction);
      const std::pair copy{instruction.what, copy_of(t, instruction.micro_batch, pipeline_)};
      const auto on_its_way = open.find(copy);
      if (instruction.act == Act::start) {
        if (on_its_way != open.end()) return report(rank, instruction, "it has not been finished before");
        const int slot = meetings_of_classes_.slot_of[c][at(instruction.what)];
        std::vector<int>& meetings = of_head_[at(head_of(slot))];
        const int number = started[slot]++;
        if (at(number) == meetings.size()) {
          meetings.push_back(static_cast<int>(meetings_.size()));
          meetings_.push_back({.members = members_[at(head_of(slot))], .waiting = {}});
        }
        own[i] = meetings[at(number)];
        open[copy] = {own[i], instruction};
      } else {
        if (on_its_way == open.end() || on_its_way->second.second.micro_batch != instruction.micro_batch)
          return report(rank, instruction, "it has not been started");
        own[i] = on_its_way->second.first;
        open.erase(on_its_way);
      }
    }
    if (!open.empty()) report(rank, open.begin()->second.second, "it is never finished");
  }

  void report(const RankStep& rank, const Instruction& i, std::string_view why) {
    out_.push_back(violation("rank {}: {}: {}", rank.rank, to_text(rank, i, pipeline_), why));
  }

  /// Lets a class on as far as it comes.
  void run(int r, std::vector<int>& ready) {
    const RankStep& rank = list(r);
    for (std::size_t& i = next_[at(r)]; i < rank.instructions.size(); ++i) {
      const Instruction& instruction = rank.instructions[i];
      if (meeting_of_[at(r)][i] < 0) continue;
      Meeting& meeting = meetings_[at(meeting_of_[at(r)][i])];
      const PreparedTransfer& t = rank.transfer(instruction);
      if (instruction.act == Act::start) {
        meeting.taken += t.takes() ? 0 : 1;
        if (++meeting.started == meeting.members) wake(meeting, ready);
        continue;
      }
      if (!may_finish(r, meeting, t, ready)) {
        meeting.waiting.push_back(r);
        return;
      }
    }
  }

  bool may_finish(int r, Meeting& meeting, const PreparedTransfer& t, std::vector<int>& ready) {
    if (meeting.started < meeting.members) return false;
    if (t.takes() && !has_taken_[at(r)]) {
      has_taken_[at(r)] = true;
      if (++meeting.taken == meeting.members) wake(meeting, ready);
    }
    if (t.gives() && meeting.taken < meeting.members) return false;
    has_taken_[at(r)] = false;
    return true;
  }

  static void wake(Meeting& meeting, std::vector<int>& ready) {
    ready.insert(ready.end(), meeting.waiting.begin(), meeting.waiting.end());
    meeting.waiting.clear();
  }

  const Instruction& current(int r) const { return list(r).instructions[next_[at(r)]]; }

  /// A class that `r` waits for. All that it meets start some time, because their transfers match.
  int awaited_by(int r) const {
    const int meeting = meeting_of_[at(r)][next_[at(r)]];
    const bool is_open = meetings_[at(meeting)].started == meetings_[at(meeting)].members;
    for (int q = 0; q < static_cast<int>(classes_.size()); ++q) {
      const std::vector<int>& own = meeting_of_[at(q)];
      const auto first = std::find(own.begin(), own.end(), meeting);
      const auto last = std::find(first == own.end() ? first : first + 1, own.end(), meeting);
      if (first == own.end()) continue;  // it is not in the group
      const auto wanted = is_open ? last : first;
      if (q != r && next_[at(q)] <= static_cast<std::size_t>(wanted - own.begin()) &&
          next_[at(q)] < own.size())
        return q;
    }
    return r;
  }

  void report_cycle(int r) {
    std::set<int> seen;
    while (seen.insert(r).second) r = awaited_by(r);  // now on the cycle
    std::string text;
    const int begin = r;
    do {
      const int q = awaited_by(r);
      text += fmt::format("{}rank {}: {} waits for rank {}", text.empty() ? "" : ", but ", list(r).rank,
                          to_text(list(r), current(r), pipeline_), list(q).rank);
      r = q;
    } while (r != begin);
    out_.push_back({text + ": nobody can go on"});
  }

  const Meetings& meetings_of_classes_;
  const std::vector<RankClass>& classes_;
  const Pipeline& pipeline_;
  std::vector<int> heads_;                 // by slot
  std::vector<int> members_;               // by head: slots
  std::vector<std::vector<int>> of_head_;  // meetings in their order
  std::vector<std::size_t> next_;          // by class: instruction
  std::vector<bool> has_taken_;            // by class: its part of the transfer that it is finishing
  std::vector<Meeting> meetings_;
  std::vector<std::vector<int>> meeting_of_;  // by class and instruction
  Violations out_;
};

}  // namespace

Violations endless_waits(const Meetings& meetings) { return Play(meetings).find(); }

}  // namespace shardwright
