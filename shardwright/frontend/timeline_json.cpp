// The timeline in numbers that a script reads. Times are in ticks; every record is a run of integers in one flat list:
//
//   patterns  {"p": pieces, "w": wire}
//   piece     name, number, doing, ticks              of one kind; doing is 0 to 3 as in SpentOn
//             name, number, 3 + count, ticks of each  of several
//   wire      name, number, count, gap, ticks, busy   `gap` from the begin of the one before
//   block     gap, ticks, kind, micro-batch, stage, pattern      `gap` from the end of the one before
//
// Names are numbers of `names`, in which `#` stands for `number`, so that layers share them.

#include <map>

#include "shardwright/frontend/timeline.h"

namespace shardwright {
namespace {

/// A name without the number between its first two dots that hold one; -1: as it is.
std::pair<std::string, int> without_layer(const std::string& name) {
  constexpr std::size_t most_digits = 6;
  if (name.find('#') != name.npos) return {name, -1};
  for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
    const std::size_t end = name.find_first_not_of("0123456789", dot + 1);
    const std::size_t digits = end == name.npos ? 0 : end - dot - 1;
    if (digits == 0 || digits > most_digits || name[end] != '.') continue;
    const std::string number = name.substr(dot, digits + 2);  // `.12.`
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = dot; at != name.npos; at = name.find(number, from)) {
      out += name.substr(from, at - from) + ".#.";
      from = at + number.size();
    }
    return {out + name.substr(from), std::stoi(number.substr(1))};
  }
  return {name, -1};
}

class TimelineNames {
 public:
  void add(Json& to, const std::string& name) {
    auto [text, number] = without_layer(name);
    const auto [it, is_new] = known_.try_emplace(text, all_.size());
    if (is_new) all_.push_back(std::move(text));
    to.push_back(it->second);
    to.push_back(number);
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::map<std::string, std::size_t> known_;
  std::vector<std::string> all_;
};

/// A whole step has at most a hundred million: eight digits.
std::int64_t tick_of(std::int64_t end) {
  std::int64_t tick = 1;
  while (end / tick > 100'000'000) tick *= 10;
  return tick;
}

class TimelineWriter {
 public:
  explicit TimelineWriter(const Timeline& timeline) : timeline_(timeline), tick_(tick_of(timeline.end)) {}

  Json written() {
    Json out{{"tick_seconds", static_cast<double>(tick_) * 1e-9},
             {"ticks", timeline_.end / tick_},
             {"events", timeline_.events},
             {"joins_pieces", timeline_.joins_pieces},
             {"joins_blocks", timeline_.joins_blocks},
             {"patterns", Json::array()},
             {"ranks", Json::array()}};
    for (const TimelinePattern& p : timeline_.patterns)
      out["patterns"].push_back({{"p", pieces(p.pieces)}, {"w", wire(p.wire)}});
    for (const RankTimeline& r : timeline_.ranks)
      out["ranks"].push_back({{"rank", r.rank},
                              {"count", r.count},
                              {"stages", r.stages},
                              {"blocks", blocks(r.blocks)},
                              {"wire", wire(r.wire)}});
    out["names"] = names_.all();
    return out;
  }

 private:
  /// Boundaries are rounded, not lengths, so that errors do not add up.
  std::int64_t rounded(std::int64_t nanoseconds) const { return (nanoseconds + tick_ / 2) / tick_; }

  Json pieces(const std::vector<TimelinePiece>& all) {
    Json out = Json::array();
    std::int64_t now = 0;
    for (const TimelinePiece& p : all) {
      names_.add(out, p.name);
      SpentTimes ticks{};
      int kinds = 0, last = 0;
      for (std::size_t d = 0; d < spent_kinds; ++d) {
        ticks[d] = rounded(now + p.times[d]) - rounded(now);
        now += p.times[d];
        if (p.times[d] > 0) ++kinds, last = static_cast<int>(d);
      }
      if (kinds <= 1 && p.count == 1) {
        out.push_back(last);
        out.push_back(ticks[static_cast<std::size_t>(last)]);
      } else {
        out.push_back(3 + p.count);
        for (const std::int64_t t : ticks) out.push_back(t);
      }
    }
    return out;
  }

  Json wire(const std::vector<WirePiece>& all) {
    Json out = Json::array();
    std::int64_t before = 0;
    for (const WirePiece& w : all) {
      names_.add(out, w.name);
      const std::int64_t begin = rounded(w.begin);
      for (const std::int64_t n :
           {std::int64_t{w.count}, begin - before, rounded(w.end) - begin, rounded(w.busy)})
        out.push_back(n);
      before = begin;
    }
    return out;
  }

  Json blocks(const std::vector<TimelineBlock>& all) const {
    Json out = Json::array();
    std::int64_t before = 0;
    for (const TimelineBlock& b : all) {
      const std::int64_t begin = rounded(b.begin), end = rounded(b.end);
      for (const std::int64_t n :
           {begin - before, end - begin, static_cast<std::int64_t>(b.kind), std::int64_t{b.micro_batch},
            std::int64_t{b.stage}, static_cast<std::int64_t>(b.pattern)})
        out.push_back(n);
      before = end;
    }
    return out;
  }

  const Timeline& timeline_;
  std::int64_t tick_;
  TimelineNames names_;
};

}  // namespace

Json json_of(const Timeline& timeline) { return TimelineWriter(timeline).written(); }

}  // namespace shardwright
