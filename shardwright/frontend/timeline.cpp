#include "shardwright/frontend/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <span>

#include "shardwright/base/index.h"
#include "shardwright/graph/graph.h"
#include "shardwright/runtime/event_spans.h"

namespace shardwright {
namespace {

/// An event inside of a task.
struct Inner {
  Act act = Act::compute;
  int what = 0;
  std::int64_t end = 0;  // from the task's begin
  const TraceEvent* event = nullptr;
};

/// Tasks of one section that do the same at the same times, but for what rounding leaves and nobody sees.
bool are_alike(const std::vector<Inner>& a, const std::vector<Inner>& b) {
  const std::int64_t slack = std::max<std::int64_t>(3, a.empty() ? 0 : a.back().end / 2000);
  return std::ranges::equal(a, b, [&](const Inner& x, const Inner& y) {
    return x.act == y.act && x.what == y.what && std::abs(x.end - y.end) <= slack;
  });
}

std::int64_t total_of(const SpentTimes& times) {
  std::int64_t out = 0;
  for (const std::int64_t t : times) out += t;
  return out;
}

void add_times(SpentTimes& to, const SpentTimes& other) {
  for (std::size_t d = 0; d < spent_kinds; ++d) to[d] += other[d];
}

BlockKind kind_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return BlockKind::forward;
    case Phase::backward: return BlockKind::backward;
    case Phase::weights: return BlockKind::weights;
    case Phase::update: break;
  }
  return BlockKind::update;
}

/// Makes the timeline of one rank; patterns are those of all.
class RankReader {
 public:
  RankReader(const Pipeline& pipeline, const RankStep& step, Timeline& out)
      : pipeline_(pipeline), step_(step), names_(pipeline, step), out_(out) {
    own_.rank = step.rank;
    own_.stages = pipeline.stages_of(step.rank);
    own_.count = pipeline.stage(own_.stages.front()).rank_count();
  }

  RankTimeline read(const std::vector<TraceEvent>& events, const std::vector<SimulatedTransfer>& transfers,
                    std::int64_t end) {
    wire_ = wire_of(transfers);
    std::vector<const TraceEvent*> inside;
    for (const TraceEvent& e : events) {
      if (e.activity != Activity::instruction) continue;
      if (e.instruction.act == Act::run) {
        add_task(e, inside);
        inside.clear();
      } else if (e.end > e.begin) {
        inside.push_back(&e);
      }
    }
    for (const TraceEvent* e : inside) add_between(*e);
    if (now_ < end) add_waiting(end, "done, while others are not");
    std::ranges::copy_if(wire_, std::back_inserter(own_.wire),
                         [](const WirePiece& w) { return w.count > 0; });
    return std::move(own_);
  }

 private:
  /// Without the numbers of values that have no other name, and with what a gradient is of.
  std::string told_name(const std::string& name, const Graph& graph, NodeId first) const {
    std::string out;
    for (std::size_t i = 0; i < name.size(); ++i) {
      const bool is_number =
          name[i] == '%' && i + 1 < name.size() && name[i + 1] >= '0' && name[i + 1] <= '9';
      if (!is_number) {
        out += name[i];
        continue;
      }
      while (i + 1 < name.size() && name[i + 1] >= '0' && name[i + 1] <= '9') ++i;
      if (!out.empty() && out.back() == ' ') out.pop_back();
    }
    if (out.size() == name.size() || !first.is_valid()) return out;
    const Node& node = graph.node(first);
    const Value& made = graph.value(node.results.front());
    const std::vector<ValueId>& of = made.gradient_of;
    return of.empty() ? out : fmt::format("{}: the gradient of {}", out, graph.value(of.front()).name);
  }

  TimelinePiece piece_of(const TraceEvent& e, std::int64_t nanoseconds) const {
    TimelinePiece out;
    const auto span = names_.compute_span(e);
    const Instruction& i = e.instruction;
    if (span) {
      const bool is_kernel = i.act == Act::compute || i.act == Act::copy;
      out.name = told_name(span->name, pipeline_.stage(i.stage).graph, is_kernel ? NodeId{i.what} : NodeId{});
    }
    SpentOn doing = SpentOn::compute;
    if (span && span->category == "exposed") doing = SpentOn::communication;
    if (span && span->category == "bubble") doing = SpentOn::waiting;
    if (i.act == Act::compute && pipeline_.stage(i.stage).graph.node({i.what}).is_recomputed)
      doing = SpentOn::again;
    out.times[static_cast<std::size_t>(doing)] = nanoseconds;
    return out;
  }

  void add_block(std::int64_t begin, std::int64_t end, BlockKind kind, TimelinePiece piece) {
    own_.blocks.push_back({begin, end, kind, 0, own_.stages.front(), shared(std::move(piece))});
    now_ = end;
  }
  void add_waiting(std::int64_t until, const char* name) {
    TimelinePiece piece{.name = name};
    piece.times[static_cast<std::size_t>(SpentOn::waiting)] = until - now_;
    add_block(now_, until, BlockKind::between, std::move(piece));
  }
  void add_between(const TraceEvent& e) {
    if (e.end <= now_) return;
    add_block(now_, e.end, BlockKind::between, piece_of(e, e.end - now_));
  }

  /// Patterns of one piece: equal ones are one.
  std::size_t shared(TimelinePiece piece) {
    const std::pair key{piece.name, piece.times};
    const auto [it, is_new] = single_.try_emplace(key, out_.patterns.size());
    if (is_new) out_.patterns.push_back({{std::move(piece)}, {}});
    return it->second;
  }

  /// A task ends behind what is inside of it; in front of that stand events between tasks.
  void add_task(const TraceEvent& run, const std::vector<const TraceEvent*>& events) {
    std::vector<Inner> inner;
    for (const TraceEvent* e : events)
      if (e->end <= run.begin)
        add_between(*e);
      else
        inner.push_back({e->instruction.act, e->instruction.what, e->end - run.begin, e});
    if (now_ < run.begin) add_waiting(run.begin, "waits");
    own_.blocks.push_back({run.begin, run.end, kind_of(run.phase), run.instruction.micro_batch,
                           run.instruction.stage, pattern_of(run, inner)});
    now_ = run.end;
  }

  std::size_t pattern_of(const TraceEvent& run, const std::vector<Inner>& inner) {
    std::vector<std::pair<std::vector<Inner>, std::size_t>>& known = known_[run.instruction.what];
    const std::vector<WirePiece> wire = wire_within(run.begin, run.end);
    for (const auto& [other, pattern] : known)
      if (are_alike(other, inner)) return pattern;
    TimelinePattern pattern{.wire = wire};
    std::int64_t before = 0;
    for (const Inner& i : inner) {
      if (i.end > before) pattern.pieces.push_back(piece_of(*i.event, i.end - before));
      before = std::max(before, i.end);
    }
    out_.patterns.push_back(std::move(pattern));
    known.emplace_back(inner, out_.patterns.size() - 1);
    return out_.patterns.size() - 1;
  }

  /// What sets out in a task; the next tasks' stands behind.
  std::vector<WirePiece> wire_within(std::int64_t begin, std::int64_t end) {
    std::vector<WirePiece> out;
    for (; next_ < wire_.size() && wire_[next_].begin < end; ++next_) {
      WirePiece& w = wire_[next_];
      if (w.begin < begin || w.is_crossing) continue;
      out.push_back(w);
      out.back().begin -= begin, out.back().end -= begin;
      w.count = 0;  // the pattern has it
    }
    return out;
  }

  std::vector<WirePiece> wire_of(const std::vector<SimulatedTransfer>& transfers) const {
    std::vector<WirePiece> out;
    for (const SimulatedTransfer& t : transfers) {
      const std::int64_t begin = std::llround(t.begin * 1e9), end = std::llround(t.end * 1e9);
      if (end > begin) out.push_back({begin, end, name_of_transfer(t), 1, end - begin, t.transfer < 0});
    }
    std::ranges::stable_sort(out, {}, &WirePiece::begin);
    return out;
  }

  std::string name_of_transfer(const SimulatedTransfer& t) const {
    if (t.transfer >= 0) {
      const PreparedTransfer& p = step_.transfers[at(t.transfer)];
      const Span span = names_.span(
          {.instruction = {Act::start, p.to_stage, t.transfer}, .activity = Activity::instruction}, "");
      const std::string name = told_name(span.name, pipeline_.stage(p.to_stage).graph, p.node);
      return p.over.empty() ? name : fmt::format("{} over {}", name, p.over);
    }
    const PlacedCrossing& c = pipeline_.crossings[at(t.crossing)];
    const std::string value = marked_name(pipeline_.stage(c.to).graph.value(c.received).name);
    return t.is_sent ? fmt::format("send {} to stage {}", value, c.to)
                     : fmt::format("receive {} from stage {}", value, c.from);
  }

  const Pipeline& pipeline_;
  const RankStep& step_;
  EventSpans names_;
  Timeline& out_;
  RankTimeline own_;
  std::int64_t now_ = 0;
  std::vector<WirePiece> wire_;  // by begin; of those that a pattern has the count is 0
  std::size_t next_ = 0;
  std::map<int, std::vector<std::pair<std::vector<Inner>, std::size_t>>> known_;  // patterns by section
  std::map<std::pair<std::string, SpentTimes>, std::size_t> single_;
};

// ---- fewer pieces ----

std::vector<TimelinePiece> joined(const std::vector<TimelinePiece>& pieces, std::size_t most) {
  std::int64_t whole = 0;
  for (const TimelinePiece& p : pieces) whole += total_of(p.times);
  const std::int64_t window = whole / static_cast<std::int64_t>(most) + 1;
  std::vector<TimelinePiece> out;
  std::int64_t longest = 0;
  for (const TimelinePiece& p : pieces) {
    const std::int64_t own = total_of(p.times);
    if (out.empty() || total_of(out.back().times) + own > window) {
      out.push_back(p);
      longest = own;
      continue;
    }
    add_times(out.back().times, p.times);
    out.back().count += p.count;
    if (own > longest) out.back().name = p.name, longest = own;
  }
  return out;
}

std::vector<WirePiece> joined(const std::vector<WirePiece>& pieces, std::size_t most) {
  if (pieces.size() <= most) return pieces;
  const std::int64_t whole = pieces.back().end - pieces.front().begin;
  const std::int64_t window = whole / static_cast<std::int64_t>(most) + 1;
  std::vector<WirePiece> out;
  for (const WirePiece& w : pieces) {
    if (out.empty() || w.end - out.back().begin > window) {
      out.push_back(w);
      continue;
    }
    out.back().end = std::max(out.back().end, w.end);
    out.back().busy += w.busy;
    out.back().count += w.count;
  }
  return out;
}

void join_pieces(Timeline& timeline, std::size_t most) {
  std::size_t count = 0;
  for (const TimelinePattern& p : timeline.patterns) count += p.pieces.size() + p.wire.size();
  for (const RankTimeline& r : timeline.ranks) count += r.wire.size();
  if (count <= most) return;
  timeline.joins_pieces = true;
  const auto share = [&](std::size_t size) { return std::max<std::size_t>(8, size * most / count); };
  for (TimelinePattern& p : timeline.patterns) {
    p.pieces = joined(p.pieces, share(p.pieces.size()));
    p.wire = joined(p.wire, share(p.wire.size()));
  }
  for (RankTimeline& r : timeline.ranks) r.wire = joined(r.wire, share(r.wire.size()));
}

SpentTimes times_in(const TimelinePattern& pattern) {
  SpentTimes out{};
  for (const TimelinePiece& p : pattern.pieces) add_times(out, p.times);
  return out;
}

/// What is in blocks side by side, as a pattern of one piece.
TimelinePattern summed(const Timeline& timeline, std::span<const TimelineBlock> blocks) {
  const std::int64_t begin = blocks.front().begin;
  TimelinePiece piece{.name = "tasks and what is between them", .count = static_cast<int>(blocks.size())};
  WirePiece wire{.end = blocks.back().end - begin, .name = "transfers", .count = 0};
  for (const TimelineBlock& b : blocks) {
    add_times(piece.times, times_in(timeline.patterns[b.pattern]));
    for (const WirePiece& w : timeline.patterns[b.pattern].wire) wire.busy += w.busy, wire.count += w.count;
  }
  TimelinePattern out{{std::move(piece)}, {}};
  if (wire.count > 0) out.wire.push_back(std::move(wire));
  return out;
}

/// The first and the last ones stay, so that filling and draining are there block by block; those between become about
/// `most` / 3.
std::vector<TimelineBlock> joined_blocks(Timeline& timeline, const std::vector<TimelineBlock>& blocks,
                                         std::size_t most) {
  const std::size_t kept = most / 3;
  if (blocks.size() <= most) return blocks;
  const auto begin = blocks.begin() + static_cast<std::ptrdiff_t>(kept);
  const auto end = blocks.end() - static_cast<std::ptrdiff_t>(kept);
  std::vector<TimelineBlock> out(blocks.begin(), begin);
  const std::int64_t window = (end->begin - begin->begin) / static_cast<std::int64_t>(kept + 1) + 1;
  for (auto first = begin; first != end;) {
    auto last = first + 1;
    while (last != end && last->end - first->begin <= window) ++last;
    out.push_back(*first);
    if (last - first > 1) {
      out.back().end = (last - 1)->end;
      out.back().kind = BlockKind::several;
      out.back().pattern = timeline.patterns.size();
      timeline.patterns.push_back(summed(timeline, {first, last}));
    }
    first = last;
  }
  out.insert(out.end(), end, blocks.end());
  return out;
}

/// Patterns that no block has any more are gone.
void drop_unused(Timeline& timeline) {
  std::vector<std::size_t> place(timeline.patterns.size(), 0);
  std::vector<TimelinePattern> kept;
  for (RankTimeline& rank : timeline.ranks)
    for (TimelineBlock& b : rank.blocks) {
      std::size_t& p = place[b.pattern];
      if (p == 0) {
        kept.push_back(std::move(timeline.patterns[b.pattern]));
        p = kept.size();
      }
      b.pattern = p - 1;
    }
  timeline.patterns = std::move(kept);
}

void join_blocks(Timeline& timeline, std::size_t most) {
  std::size_t count = 0;
  for (const RankTimeline& r : timeline.ranks) count += r.blocks.size();
  if (count <= most) return;
  timeline.joins_blocks = true;
  const std::size_t each = std::max<std::size_t>(3, most / timeline.ranks.size());
  for (RankTimeline& r : timeline.ranks) r.blocks = joined_blocks(timeline, r.blocks, each);
  drop_unused(timeline);
}

}  // namespace

Timeline timeline_of(const Pipeline& pipeline, const std::vector<SimulatedRank>& ranks,
                     const StepTrace& trace, const TimelineLimits& limits) {
  Timeline out;
  std::vector<int> told;
  for (const SimulatedRank& r : ranks) {
    told.push_back(r.rank);
    out.events += r.events.size();
    out.end = std::max<std::int64_t>(out.end, std::llround(r.end * 1e9));
  }
  const std::vector<RankStep> steps = steps_of(pipeline, told);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    out.ranks.push_back(RankReader(pipeline, steps[r], out)
                            .read(trace.ranks[at(ranks[r].rank)], ranks[r].transfers, out.end));
  join_blocks(out, limits.blocks);
  join_pieces(out, limits.pieces);
  return out;
}

SpentTimes times_of(const Timeline& timeline, const RankTimeline& rank) {
  SpentTimes out{};
  for (const TimelineBlock& b : rank.blocks) add_times(out, times_in(timeline.patterns[b.pattern]));
  return out;
}

std::size_t event_count(const Pipeline& pipeline) {
  std::size_t out = 0;
  for (const RankStep& step : steps_of_stages(pipeline))
    for (const Instruction& i : step.instructions)
      out += i.act == Act::run ? step.section(i).instructions.size() : 1;
  return out;
}

}  // namespace shardwright
