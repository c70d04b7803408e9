// Events of ranks as tracks: names for what they are about, spans from start to finish for what is on its way.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/runtime/trace_file.h"

namespace shardwright {
namespace {

/// What looks for work and finds none.
constexpr std::int64_t shortest = 1000;

/// A rank's events, and what their instructions are about.
class StepReader {
 public:
  StepReader(const Pipeline& pipeline, const RankStep& step) : pipeline_(pipeline), step_(step) {}

  bool is_transfer(const TraceEvent& e) const {
    return e.activity == Activity::instruction &&
           (e.instruction.act == Act::start || e.instruction.act == Act::finish);
  }
  const PreparedTransfer& transfer(const TraceEvent& e) const { return step_.transfer(e.instruction); }
  bool crosses(const TraceEvent& e) const { return is_transfer(e) && transfer(e).crossing >= 0; }

  /// `forward 2`; where a rank has several stages, of which.
  Span run_span(const TraceEvent& e) const {
    Span out = span(e, "schedule", name_of(e.phase));
    if (out.micro_batch >= 0) out.name += fmt::format(" {}", out.micro_batch);
    if (out.micro_batch >= 0 && pipeline_.stages_of(step_.rank).size() > 1)
      out.name += fmt::format(" of stage {}", e.instruction.stage);
    return out;
  }

  Span span(const TraceEvent& e, std::string category, std::string_view verb = "") const {
    Span out{.begin = e.begin,
             .end = e.end,
             .category = std::move(category),
             .name = std::string(verb),
             .micro_batch = e.phase == Phase::update ? -1 : e.instruction.micro_batch,
             .phase = e.phase};
    const Instruction& i = e.instruction;
    if (is_transfer(e) || i.act == Act::compute || i.act == Act::copy) out.instruction = i;
    if (is_transfer(e) && transfer(e).crossing < 0)
      name_after_nodes(out, i.stage, transfer(e).node, transfer(e).parts.size());
    else if (is_transfer(e))
      out.name += (verb.empty() ? "" : " ") + marked(value_of(transfer(e)).name);
    else if (i.act == Act::compute || i.act == Act::copy)
      name_after_nodes(out, i.stage, {i.what}, size_of_fusion(i));
    return out;
  }

 private:
  const Graph& graph(int stage) const { return pipeline_.stage(stage).graph; }

  /// What crosses, as it is called here.
  const Value& value_of(const PreparedTransfer& t) const {
    const Part& part = t.parts.front();
    return part.to.is_valid() ? graph(t.to_stage).value(part.to) : graph(t.from_stage).value(part.from);
  }

  std::size_t size_of_fusion(const Instruction& i) const {
    const std::vector<Node>& nodes = graph(i.stage).nodes;
    std::size_t end = at(i.what) + 1;
    while (end < nodes.size() && nodes[end].is_fused) ++end;
    return end - at(i.what);
  }

  void name_after_nodes(Span& span, int stage, NodeId first, std::size_t count) const {
    for (std::size_t n = 0; n < count; ++n) {
      const NodeId id{first.index + static_cast<int>(n)};
      span.nodes.push_back(graph(stage).name_of(id));
      span.operators.push_back(graph(stage).node(id).op->name);
    }
    if (graph(stage).node(first).op->kind == OpKind::step)
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

  const Pipeline& pipeline_;
  const RankStep& step_;
};

/// Nothing of those that take no time worth a span.
std::optional<Span> unless_short(Span span) {
  if (span.end - span.begin < shortest) return std::nullopt;
  return span;
}

/// What the rank's thread does.
std::optional<Span> compute_span(const StepReader& reader, const TraceEvent& e) {
  if (e.activity == Activity::step) {
    Span out{.begin = e.begin, .end = e.end, .category = "schedule"};
    out.name = fmt::format("step {}", e.instruction.what);
    return out;
  }
  if (e.activity == Activity::progress) {
    Span out{.begin = e.begin, .end = e.end, .category = "exposed", .name = "move transfers on"};
    out.phase = e.phase;
    return unless_short(std::move(out));
  }
  switch (e.instruction.act) {
    case Act::run: return reader.run_span(e);
    case Act::fill: return reader.span(e, "data", "inputs");
    case Act::hand_out: return reader.span(e, "data", "outputs");
    case Act::clear: return unless_short(reader.span(e, "data", "clear accumulators"));
    case Act::replace: return unless_short(reader.span(e, "data", "replace leaves"));
    case Act::compute: return reader.span(e, "compute");
    case Act::copy: return reader.span(e, "data", "copy");
    case Act::finish:
      if (!reader.crosses(e)) return reader.span(e, "exposed", "wait for");
      return reader.span(e, "bubble", reader.transfer(e).takes() ? "wait for" : "wait for the taking of");
    case Act::start:
    case Act::keep: break;
  }
  return std::nullopt;
}

/// What is on its way, from start to finish.
class Transfers {
 public:
  void add(const StepReader& reader, const TraceEvent& e) {
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
  void add(const StepReader& reader, int rank, const std::vector<TraceEvent>& events) {
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
    const StepReader reader(pipeline, list);
    const int stage = pipeline.group_of(rank);
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
