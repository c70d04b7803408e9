// Events of ranks as tracks: names for what they are about, spans from start to finish for what is on its way.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "shardwright/graph/op.h"
#include "shardwright/runtime/flows.h"
#include "shardwright/runtime/trace_file.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// What looks for work and finds none.
constexpr std::int64_t shortest_progress = 1000;

bool is_of_flow(Activity a) { return a >= Activity::send; }

/// A rank's events, and what their numbers stand for.
class Reader {
 public:
  Reader(const Pipeline& pipeline, int rank)
      : graph_(pipeline.stage(pipeline.stage_of(rank)).graph), flows_(stage_rank(pipeline, rank).flows) {
    ends_.resize(graph_.nodes.size());
    for (const Fusion& f : fusions_of(graph_)) ends_[at(f.begin.index)] = f.end;
  }

  const Flow& flow(const TraceEvent& e) const { return flows_[at(e.what)]; }

  Span span(const TraceEvent& e, std::string category, std::string_view verb = "") const {
    Span out{.begin = e.begin,
             .end = e.end,
             .category = std::move(category),
             .name = std::string(verb),
             .micro_batch = e.phase == Phase::update ? -1 : e.micro_batch,
             .phase = e.phase};
    if (is_of_flow(e.activity))
      out.name += (verb.empty() ? "" : " ") + marked(graph_.value(flow(e).value).name);
    else if (e.activity >= Activity::kernel)
      name_after_nodes(out, e.what);
    return out;
  }

 private:
  void name_after_nodes(Span& span, int first) const {
    for (int n = first; n < ends_[at(first)].index; ++n) {
      span.nodes.push_back(graph_.name_of({n}));
      span.operators.push_back(graph_.node({n}).op->name);
    }
    if (graph_.node({first}).op->kind == OpKind::step)
      span.name += (span.name.empty() ? "" : " ") + span.operators.front() + " ";
    else if (!span.name.empty())
      span.name += " ";
    span.name += label_of(span, 0);
    if (span.nodes.size() > 1) span.name += " + " + label_of(span, 1);
    if (span.nodes.size() > 2) span.name += fmt::format(" + {} more", span.nodes.size() - 2);
  }

  /// Values that have only a number look like it: `%59`.
  static std::string marked(const std::string& name) {
    return name.find_first_not_of("0123456789") == std::string::npos ? "%" + name : name;
  }
  /// Nodes that have only a number are called after their operator, too.
  static std::string label_of(const Span& span, std::size_t i) {
    const std::string name = marked(span.nodes[i]);
    return name == span.nodes[i] ? name : span.operators[i] + " " + name;
  }

  const Graph& graph_;
  std::vector<Flow> flows_;
  std::vector<NodeId> ends_;  // by first node of a fusion
};

/// What the rank's thread does. Starts take no time worth a span.
std::optional<Span> compute_span(const Reader& reader, const TraceEvent& e) {
  switch (e.activity) {
    case Activity::step: {
      Span out{
          .begin = e.begin, .end = e.end, .category = "schedule", .name = fmt::format("step {}", e.what)};
      return out;
    }
    case Activity::task: {
      Span out = reader.span(e, "schedule", name_of(e.phase));
      if (out.micro_batch >= 0) out.name += fmt::format(" {}", e.micro_batch);
      return out;
    }
    case Activity::inputs: return reader.span(e, "data", "inputs");
    case Activity::outputs: return reader.span(e, "data", "outputs");
    case Activity::kernel: return reader.span(e, "compute");
    case Activity::copy: return reader.span(e, "data", "copy");
    case Activity::transfer:
    case Activity::finish: return reader.span(e, "exposed", "wait for");
    case Activity::progress: {
      Span out{.begin = e.begin, .end = e.end, .category = "exposed", .name = "move transfers on"};
      out.phase = e.phase;
      if (e.end - e.begin < shortest_progress) return std::nullopt;
      return out;
    }
    case Activity::sent: return reader.span(e, "bubble", "wait for the taking of");
    case Activity::receive: return reader.span(e, "bubble", "wait for");
    default: return std::nullopt;
  }
}

/// What is on its way, from start to finish.
class Transfers {
 public:
  void add(const Reader& reader, const TraceEvent& e) {
    const auto key = std::tuple(is_of_flow(e.activity), e.what, is_of_flow(e.activity) ? e.micro_batch : 0);
    switch (e.activity) {
      case Activity::transfer: spans_.push_back(reader.span(e, "communication")); return;
      case Activity::start:
      case Activity::send:
      case Activity::expect: started_[key] = e; return;
      case Activity::finish:
      case Activity::sent:
      case Activity::receive: break;
      default: return;
    }
    const auto start = started_.find(key);
    if (start == started_.end()) return;
    const std::string_view verb = e.activity == Activity::sent      ? "send"
                                  : e.activity == Activity::receive ? "receive"
                                                                    : "";
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
  std::map<std::tuple<bool, int, int>, TraceEvent> started_;
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
    add(steps.at(e.what).begin, e.begin);
    since = e.end;
    until = steps.at(e.what).end;
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
  void add(const Reader& reader, int rank, const std::vector<TraceEvent>& events) {
    int step = 0;  // whose event stands behind its own
    for (const TraceEvent& e : events) {
      step += e.activity == Activity::step;
      if (e.activity != Activity::send && e.activity != Activity::receive) continue;
      const Flow& flow = reader.flow(e);
      const CrossingKey key{step, flow.transfer.channel, e.micro_batch};
      if (e.activity == Activity::send) {
        sends_[key].push_back({rank, e.begin, e.end});
        continue;
      }
      std::vector<int> sources;
      for (const Piece& piece : flow.transfer.pieces) sources.push_back(piece.source);
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
  Tracks out;
  Arrows arrows;
  std::map<int, int> communication;
  for (int rank = 0; rank < static_cast<int>(trace.ranks.size()); ++rank) {
    const std::vector<TraceEvent>& events = trace.ranks[at(rank)];
    const Reader reader(pipeline, rank);
    const int stage = pipeline.stage_of(rank);
    const std::string name = fmt::format("rank {} (stage {})", rank, stage);
    Track compute{rank, stage, fmt::format("{} compute", name), {}};
    Transfers transfers;
    for (const TraceEvent& e : events) {
      if (auto span = compute_span(reader, e)) compute.spans.push_back(std::move(*span));
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
