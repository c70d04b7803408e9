#include "shardwright/runtime/record_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

using RecordedAct = RecordedInstruction::Act;
using Does = RankState::Does;
using Fault = RecordFindings::Fault;
using Records = std::map<int, RankRecord>;

/// Why a run failed: which rank found that, and for whom it had waited, if it was that.
struct Cause {
  std::optional<int> rank = {};
  std::string text = {};
  std::vector<int> waited_for = {};
  bool is_silent = false;  // they gave no sign
};

/// The number that `text` begins with, which is taken from it.
std::optional<int> take_number(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  const auto number = to_integer(digits);
  if (!number || *number > (1 << 20)) return std::nullopt;
  text.remove_prefix(digits.size());
  return static_cast<int>(*number);
}

/// `rank 3: `, `rank 2: rank 3 failed: ` and so on, before what rank 3 says.
Cause cause_of(std::string_view why) {
  Cause out;
  for (std::string_view rest = why; rest.starts_with("rank ");) {
    rest.remove_prefix(5);
    const auto number = take_number(rest);
    const std::string_view mark = rest.starts_with(" failed: ") ? " failed: " : ": ";
    if (!number || !rest.starts_with(mark)) break;
    rest.remove_prefix(mark.size());
    out.rank = number;
    why = rest;
  }
  out.text = why;
  const std::size_t waited = why.find(" waited "), whom = why.find(" for rank", waited);
  if (waited == why.npos || whom == why.npos) return out;
  std::string_view list = why.substr(whom + 9);
  if (list.starts_with('s')) list.remove_prefix(1);
  while (list.starts_with(' ')) {
    list.remove_prefix(1);
    const auto number = take_number(list);
    if (!number) break;
    out.waited_for.push_back(*number);
    if (list.starts_with(',')) list.remove_prefix(1);
  }
  std::ranges::sort(out.waited_for);
  out.is_silent = list.find("no sign of life") != list.npos;
  return out;
}

/// `rank 3`, `ranks 0, 1`; of many the first few.
std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::ptrdiff_t most = 8;
  const auto end = ranks.begin() + std::min<std::ptrdiff_t>(most, std::ssize(ranks));
  std::string out =
      fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks.begin(), end, ", "));
  if (end != ranks.end()) out += fmt::format(" and {} more", ranks.end() - end);
  return out;
}

std::string place_text(const RecordedInstruction& i) {
  std::string out = fmt::format("step {}", i.step);
  if (i.micro_batch) out += fmt::format(", micro-batch {}", *i.micro_batch);
  return out;
}

class Comparison {
 public:
  explicit Comparison(const Records& records) : records_(records) {
    for (const auto& [rank, record] : records) {
      ranks_ = std::max({ranks_, record.ranks, rank + 1});
      for (const RecordedInstruction& i : record.instructions) {
        if (!i.transfer) continue;
        known_[i.transfer->name].insert(rank);
        if (!i.transfer->ranks.empty()) ranks_ = std::max(ranks_, i.transfer->ranks.back() + 1);
      }
    }
  }

  RecordFindings findings() {
    out_.ranks = ranks_;
    for (int r = 0; r < ranks_; ++r)
      if (!records_.contains(r)) out_.missing.push_back(r);
    for (const auto& [rank, record] : records_) out_.states.push_back(state_of(record));
    if (!find_failed() && !find_different() && !find_skipped() && !find_silent() && !find_waited_for())
      find_rest();
    return std::move(out_);
  }

 private:
  const RankRecord* record_of(int rank) const {
    const auto it = records_.find(rank);
    return it == records_.end() ? nullptr : &it->second;
  }
  const RankState* state_of(int rank) const {
    const auto it = std::ranges::lower_bound(out_.states, rank, {}, &RankState::rank);
    return it == out_.states.end() || it->rank != rank ? nullptr : &*it;
  }

  static bool is_same(const RecordedInstruction& a, const RecordedInstruction& b) {
    return a.step == b.step && a.micro_batch == b.micro_batch && a.transfer && b.transfer &&
           a.transfer->name == b.transfer->name;
  }
  /// Whether the record has `act` of what `i` is about; to its end, of `finish`.
  static bool has(const RankRecord& record, const RecordedInstruction& i, RecordedAct act) {
    return std::ranges::any_of(record.instructions, [&](const RecordedInstruction& other) {
      return other.act == act && (act == RecordedAct::start || other.seconds) && is_same(i, other);
    });
  }

  /// Those that the text lists; of a long list those between, too, that have it, or that nobody knows anything of.
  std::vector<int> members(const RecordedTransfer& t) const {
    std::set<int> out(t.ranks.begin(), t.ranks.end());
    if (std::ssize(out) == t.rank_count) return t.ranks;
    out.insert(known_.at(t.name).begin(), known_.at(t.name).end());
    for (int r : out_.missing)
      if (std::ssize(out) < t.rank_count) out.insert(r);
    return {out.begin(), out.end()};
  }

  std::vector<int> waited_for(const RankRecord& record, const RecordedInstruction& i) const {
    std::vector<int> unstarted, unfinished;
    for (int r : members(*i.transfer)) {
      if (r == record.rank) continue;
      const RankRecord* const other = record_of(r);
      if (!other || !has(*other, i, RecordedAct::start))
        unstarted.push_back(r);
      else if (!has(*other, i, RecordedAct::finish))
        unfinished.push_back(r);
    }
    return unstarted.empty() ? unfinished : unstarted;
  }

  RankState state_of(const RankRecord& record) const {
    RankState out{.rank = record.rank};
    const RecordedInstruction* const current = record.current();
    if (!record.instructions.empty()) {
      out.instruction = &record.instructions.back();
      out.since = record.time - out.instruction->begin - out.instruction->seconds.value_or(0);
    }
    const Cause cause = cause_of(record.why);
    const bool is_own = cause.rank == record.rank;
    if (is_own && cause.waited_for.empty()) {
      out.does = Does::failed;
      out.why = cause.text;
    } else if (current && current->act == RecordedAct::finish) {
      out.does = Does::waits;
      out.waits_for = waited_for(record, *current);
      if (out.waits_for.empty() && is_own) out.waits_for = cause.waited_for;
    } else if (current) {
      out.does = Does::works;
    } else if (is_own) {
      out.does = Does::waits;
      out.waits_for = cause.waited_for;
      out.why = cause.text.substr(0, cause.text.find(" waited "));
    }
    return out;
  }

  void blame(Fault fault, std::vector<int> ranks, std::string why) {
    out_.fault = fault;
    out_.to_blame = std::move(ranks);
    out_.why = fmt::format("{} {}", ranks_text(out_.to_blame), why);
  }

  /// One that says what went wrong; the earliest.
  bool find_failed() {
    const RankState* first = nullptr;
    for (const RankState& s : out_.states)
      if (s.does == Does::failed && (!first || record_of(s.rank)->time < record_of(first->rank)->time))
        first = &s;
    if (first) {
      blame(Fault::failed, {first->rank}, "failed: " + first->why);
      return true;
    }
    for (const auto& [rank, record] : records_) {
      const Cause cause = cause_of(record.why);
      if (!cause.rank || !cause.waited_for.empty() || *cause.rank >= ranks_) continue;
      blame(Fault::failed, {*cause.rank}, "failed: " + cause.text);
      return true;
    }
    return false;
  }

  /// Two of a group that each wait in something that the other has not started: fewer are wrong.
  bool find_different() {
    for (const RankState& a : out_.states) {
      if (a.does != Does::waits || !is_transfer(a)) continue;
      std::vector<int> same{a.rank}, others;
      for (int r : a.waits_for) {
        const RankState* const b = state_of(r);
        if (b && b->does == Does::waits && is_transfer(*b) && !is_same(*a.instruction, *b->instruction) &&
            b->instruction->transfer->ranks == a.instruction->transfer->ranks &&
            std::ranges::binary_search(b->waits_for, a.rank))
          others.push_back(r);
      }
      if (others.empty()) continue;
      for (const RankState& s : out_.states)
        if (s.rank != a.rank && s.does == Does::waits && is_transfer(s) &&
            is_same(*a.instruction, *s.instruction))
          same.push_back(s.rank);
      std::ranges::sort(same);
      const bool are_fewer = others.size() < same.size();
      const RankState& odd = *state_of(are_fewer ? others.front() : same.front());
      const RankState& usual = *state_of(are_fewer ? same.front() : others.front());
      std::vector<int> blamed = are_fewer ? others : same;
      if (others.size() == same.size()) blamed.insert(blamed.end(), others.begin(), others.end());
      std::ranges::sort(blamed);
      const std::string verb = others.size() == same.size() ? "do different things" : "did something else";
      blame(Fault::different, blamed,
            fmt::format("{}: rank {} was at {}, {}, and {} at {}, {}", verb, odd.rank, odd.instruction->text,
                        place_text(*odd.instruction), ranks_text(are_fewer ? same : others),
                        usual.instruction->text, place_text(*usual.instruction)));
      return true;
    }
    return false;
  }

  /// One that has gone on to a later step without it, though its record reaches back.
  bool find_skipped() {
    for (const RankState& a : out_.states) {
      if (a.does != Does::waits || !is_transfer(a)) continue;
      for (int r : a.waits_for) {
        const RankRecord* const other = record_of(r);
        if (!other || other->instructions.empty() || has(*other, *a.instruction, RecordedAct::start))
          continue;
        if (other->instructions.front().step >= a.instruction->step ||
            other->instructions.back().step <= a.instruction->step)
          continue;
        blame(Fault::skipped, {r},
              fmt::format("went on to step {} without {}, {}, in which rank {} waits for it",
                          other->instructions.back().step, transfer_text(*a.instruction),
                          place_text(*a.instruction), a.rank));
        return true;
      }
    }
    return false;
  }

  /// Those of whom somebody says that they gave no sign, whatever they wrote when they were woken to end.
  bool find_silent() {
    for (const auto& [rank, record] : records_) {
      const Cause cause = cause_of(record.why);
      if (!cause.is_silent || !cause.rank || cause.waited_for.empty()) continue;
      const RankState* const state = state_of(cause.waited_for.front());
      const std::string last = state ? last_text(*state) : "";
      blame(Fault::silent, cause.waited_for,
            fmt::format("gave no sign of life to rank {}, which waited in {}{}", *cause.rank,
                        cause.text.substr(0, cause.text.find(" waited ")), last));
      set_silent();
      return true;
    }
    return false;
  }

  /// What they wait for since they were woken says nothing, and whoever waits for them does so first.
  void set_silent() {
    for (RankState& s : out_.states) {
      if (std::ranges::binary_search(out_.to_blame, s.rank)) {
        s.does = Does::silent;
        s.waits_for.clear();
      }
      std::vector<int> silent;
      std::ranges::set_intersection(s.waits_for, out_.to_blame, std::back_inserter(silent));
      if (!silent.empty()) s.waits_for = silent;
    }
  }

  static bool is_transfer(const RankState& s) {
    return s.instruction && s.instruction->act == RecordedAct::finish;
  }
  static std::string transfer_text(const RecordedInstruction& i) {
    return fmt::format("{} {}", i.transfer->kind, i.transfer->value);
  }

  /// Whom others wait for, and who waits for nobody: of several the one that has been waited for longest.
  bool find_waited_for() {
    std::optional<int> first;
    double longest = 0;
    for (const RankState& s : out_.states)
      for (int r : s.waits_for) {
        const RankState* const other = state_of(r);
        if (other && (other->does == Does::waits || other->does == Does::failed)) continue;
        if (first && s.since <= longest) continue;
        first = r;
        longest = s.since;
      }
    if (!first) return false;
    std::vector<int> waiters;
    for (const RankState& s : out_.states)
      if (std::ranges::binary_search(s.waits_for, *first)) waiters.push_back(s.rank);
    const std::string waited =
        fmt::format("{} waited for it, at last {:.3g} s", ranks_text(waiters), longest);
    const RankState* const state = state_of(*first);
    if (!state)
      blame(
          Fault::missing, {*first},
          fmt::format("left no record (it was stopped or killed, or wrote it on another host); {}", waited));
    else if (state->does == Does::works)
      blame(Fault::works, {*first},
            fmt::format("was still at {}, {}, for {:.3g} s; {}", state->instruction->text,
                        place_text(*state->instruction), state->since, waited));
    else
      blame(Fault::works, {*first},
            fmt::format("was between two instructions{}; {}", last_text(*state), waited));
    return true;
  }

  static std::string last_text(const RankState& s) {
    if (!s.instruction) return "";
    return fmt::format("; its last instruction was {}, {}, {:.3g} s before", s.instruction->text,
                       place_text(*s.instruction), s.since);
  }

  void find_rest() {
    std::vector<int> waiting;
    for (const RankState& s : out_.states)
      if (s.does == Does::waits) waiting.push_back(s.rank);
    if (!out_.missing.empty()) {
      blame(Fault::missing, out_.missing, "left no record; nobody is seen to wait for it");
    } else if (waiting.size() > 1) {
      blame(Fault::each_other, waiting, "waited for each other: none of them is first");
    }
  }

  const Records& records_;
  int ranks_ = 0;
  std::map<std::string, std::set<int>> known_;  // by name of a transfer: who has it
  RecordFindings out_;
};

std::string state_text(const RankState& s) {
  if (!s.instruction && s.does != Does::failed && s.waits_for.empty())
    return fmt::format("rank {}: had not begun a step\n", s.rank);
  std::string out = fmt::format("rank {}: ", s.rank);
  if (s.instruction) out += place_text(*s.instruction) + ": ";
  const std::string what = s.instruction ? s.instruction->text : "";
  const std::string whom = s.waits_for.empty() ? "" : fmt::format(" for {}", ranks_text(s.waits_for));
  if (s.does == Does::waits && s.why.empty())
    out += fmt::format("waited{} in {} for {:.3g} s", whom, what.substr(what.find(' ') + 1), s.since);
  else if (s.does == Does::waits)
    out += fmt::format("waited{} in {}; its last instruction was {}, {:.3g} s before", whom, s.why,
                       what.empty() ? "none" : what, s.since);
  else if (s.does == Does::works)
    out += fmt::format("at {} for {:.3g} s", what, s.since);
  else if (s.does == Does::silent)
    out += fmt::format("gave no sign behind {}, {:.3g} s before", what, s.since);
  else if (s.does == Does::failed)
    out += fmt::format("failed{}: {}", what.empty() ? "" : " in " + what, s.why);
  else
    out += fmt::format("had ended {} {:.3g} s before", what, s.since);
  return out + "\n";
}

}  // namespace

RecordFindings compared(const std::map<int, RankRecord>& records) { return Comparison(records).findings(); }

std::string to_text(const RecordFindings& f) {
  std::string out = fmt::format("{} rank{}, {} of which left a record{}\n", f.ranks, f.ranks == 1 ? "" : "s",
                                f.states.size(),
                                f.missing.empty() ? "" : fmt::format("; none of {}", ranks_text(f.missing)));
  for (const RankState& s : f.states) out += state_text(s);
  return out + (f.why.empty() ? "nobody is to blame\n" : fmt::format("to blame: {}\n", f.why));
}

}  // namespace shardwright
