// Events of ranks as tracks: spans from start to finish for what is on its way.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/runtime/event_spans.h"
#include "shardwright/runtime/trace_file.h"

namespace shardwright {
namespace {

/// What is on its way, from start to finish.
class Transfers {
 public:
  void add(const EventSpans& reader, const TraceEvent& e) {
    if (!reader.is_transfer(e)) return;
    const std::pair key{e.instruction.what, e.instruction.micro_batch};
    if (e.instruction.act == Act::start) {
      started_[key] = e;
      return;
    }
    const auto start = started_.find(key);
    if (start == started_.end()) return;
    const std::string_view verb = !reader.crosses(e) ? "" : reader.transfer(e).takes() ? "receive" : "send";
    Span span = reader.span(e, "communication", verb);
    span.begin = start->second.begin;
    started_.erase(start);
    spans_.push_back(std::move(span));
  }

  /// On as few tracks as they need.
  std::vector<std::vector<Span>> tracks() {
    std::ranges::stable_sort(spans_, {}, &Span::begin);
    std::vector<std::vector<Span>> out(1);
    for (Span& span : spans_) {
      const auto has_room = [&](const auto& track) {
        return track.empty() || track.back().end <= span.begin;
      };
      auto track = std::ranges::find_if(out, has_room);
      if (track == out.end()) track = out.insert(out.end(), std::vector<Span>());
      track->push_back(std::move(span));
    }
    return out;
  }

 private:
  std::map<std::pair<int, int>, TraceEvent> started_;  // by transfer and micro-batch
  std::vector<Span> spans_;
};

/// Where a rank is done before the others are, or begins after them. It may begin the next step meanwhile.
void add_idle(std::vector<Span>& spans, const std::map<int, Interval>& steps,
              const std::vector<TraceEvent>& own) {
  std::int64_t since = 0;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    begin = std::max(begin, since);
    if (end > begin) spans.push_back({.begin = begin, .end = end, .category = "bubble", .name = "idle"});
  };
  std::int64_t until = 0;  // others end the step before
  for (const TraceEvent& e : own) {
    if (e.activity != Activity::step) continue;
    add(since, std::min(until, e.begin));
    since = std::max(since, until);
    add(steps.at(e.instruction.what).begin, e.begin);
    since = e.end;
    until = steps.at(e.instruction.what).end;
  }
  add(since, until);
}

/// The ends of one crossing in one step.
using CrossingKey = std::tuple<int, int, int>;  // step, channel, micro-batch

struct End {
  int rank = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Arrows {
 public:
  void add(const EventSpans& reader, int rank, const std::vector<TraceEvent>& events) {
    int step = 0;  // whose event stands behind its own
    for (const TraceEvent& e : events) {
      step += e.activity == Activity::step;
      if (!reader.crosses(e)) continue;
      const PreparedTransfer& transfer = reader.transfer(e);
      const bool starts = e.instruction.act == Act::start;
      if (starts ? !transfer.gives() : !transfer.takes()) continue;
      const CrossingKey key{step, transfer.channel(), e.instruction.micro_batch};
      if (starts) {
        sends_[key].push_back({rank, e.begin, e.end});
        continue;
      }
      std::vector<int> sources;
      for (const Piece& piece : transfer.parts.front().transfer->pieces) sources.push_back(piece.source);
      receives_.push_back({key, {rank, e.begin, e.end}, std::move(sources), reader.span(e, "").name});
    }
  }

  std::vector<Arrow> arrows(const std::map<int, int>& communication) const {
    std::vector<Arrow> out;
    for (const Receive& r : receives_) {
      const auto sends = sends_.find(r.key);
      if (sends == sends_.end()) continue;
      for (const End& send : sends->second)
        if (std::ranges::find(r.sources, send.rank) != r.sources.end())
          out.push_back(
              {r.name, communication.at(send.rank), communication.at(r.end.rank), send.begin, r.end.end});
    }
    return out;
  }

 private:
  struct Receive {
    CrossingKey key;
    End end;
    std::vector<int> sources;
    std::string name;
  };
  std::map<CrossingKey, std::vector<End>> sends_;
  std::vector<Receive> receives_;
};

}  // namespace

Tracks tracks_of(const Pipeline& pipeline, const StepTrace& trace) {
  const std::map<int, Interval> steps = steps_of(trace);
  const std::vector<int> ranks = ranks_of(trace);
  const std::vector<RankStep> lists = steps_of(pipeline, ranks);
  Tracks out;
  Arrows arrows;
  std::map<int, int> communication;
  for (const RankStep& list : lists) {
    const int rank = list.rank;
    const std::vector<TraceEvent>& events = trace.ranks[at(rank)];
    const EventSpans reader(pipeline, list);
    const int stage = pipeline.group_of(rank);
    const std::string name = fmt::format("rank {} (stage {})", rank, stage);
    Track compute{rank, stage, fmt::format("{} compute", name), {}};
    Transfers transfers;
    for (const TraceEvent& e : events) {
      if (auto span = reader.compute_span(e)) compute.spans.push_back(std::move(*span));
      transfers.add(reader, e);
    }
    if (pipeline.stage_count() > 1) add_idle(compute.spans, steps, events);
    // What ends last has been recorded last, and contains what began with it.
    std::ranges::reverse(compute.spans);
    std::ranges::stable_sort(compute.spans, [](const Span& a, const Span& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    out.tracks.push_back(std::move(compute));
    communication[rank] = static_cast<int>(out.tracks.size());
    int number = 1;
    for (std::vector<Span>& spans : transfers.tracks()) {
      const std::string suffix = number > 1 ? fmt::format(" {}", number) : "";
      out.tracks.push_back({rank, stage, fmt::format("{} communication{}", name, suffix), std::move(spans)});
      ++number;
    }
    arrows.add(reader, rank, events);
  }
  out.arrows = arrows.arrows(communication);
  return out;
}

}  // namespace shardwright
