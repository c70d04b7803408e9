#include "shardwright/runtime/trace_file.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "shardwright/base/file.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/graph/op.h"
#include "shardwright/simulate/memory_curve.h"
#include "shardwright/simulate/stage_prices.h"
#include "shardwright/simulate/work_json.h"

namespace shardwright {
namespace {

using Json = nlohmann::ordered_json;

/// One event a line, so that the file can be read and searched as text.
class Lines {
 public:
  void add(const Json& event) {
    text_ += text_.empty() ? "" : ",\n";
    text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  /// `others`: what is said of all of them.
  std::string text(const Json& others) && {
    return "{\"displayTimeUnit\":\"ms\",\"otherData\":" +
           others.dump(-1, ' ', false, Json::error_handler_t::replace) + ",\"traceEvents\":[\n" +
           std::move(text_) + "\n]}\n";
  }

 private:
  std::string text_;
};

std::int64_t first_begin(const StepTrace& trace) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const auto& events : trace.ranks)
    for (const TraceEvent& e : events) first = std::min(first, e.begin);
  return first;
}

/// What kernels and collectives do, by the numbers that they are priced by.
class Works {
 public:
  Works(const Pipeline& pipeline, const Cluster& cluster, const std::vector<RankStep>& steps)
      : pipeline_(pipeline) {
    for (const RankStep& step : steps) steps_[step.rank] = &step;
    for (int s = 0; s < pipeline.stage_count(); ++s) {
      const Cluster& own =
          clusters_.emplace_back(cluster.part(pipeline.first_rank(s), pipeline.stage(s).rank_count()));
      prices_.try_emplace(s, pipeline.stage(s), s, own);
    }
  }

  /// Nothing of what has no price of its own.
  Json of(int rank, const Instruction& i) {
    if (i.act == Act::compute || i.act == Act::copy)
      return work_json(prices_.at(i.stage).work_of(i.what, rank - pipeline_.first_rank(i.stage)));
    const PreparedTransfer& transfer = steps_.at(rank)->transfer(i);
    const bool has_price =
        transfer.crossing < 0 && is_collective(transfer.kind()) && transfer.kind() != StepKind::exchange;
    return has_price ? work_json(prices_.at(transfer.to_stage).graph(), transfer) : Json();
  }

 private:
  const Pipeline& pipeline_;
  std::map<int, const RankStep*> steps_;  // by rank
  std::deque<Cluster> clusters_;          // by stage; prices refer to them
  std::map<int, StagePrices> prices_;     // by stage
};

Json arguments_of(const Span& span, int rank, Works& works) {
  Json out = Json::object();
  if (span.micro_batch >= 0) out["micro_batch"] = span.micro_batch;
  if (span.nodes.empty()) return out;
  out["phase"] = name_of(span.phase);
  out["nodes"] = span.nodes;
  out["operators"] = span.operators;
  if (!span.instruction) return out;
  if (const Json work = works.of(rank, *span.instruction); !work.is_null()) out["work"] = work;
  return out;
}

/// What stands at the head of a process or track: its name and, by `order`, where.
void add_heading(Lines& lines, std::string_view what, const Json& place, const std::string& name, int order) {
  Json event{{"ph", "M"}, {"name", std::string(what) + "_name"}, {"args", {{"name", name}}}};
  event.update(place);
  lines.add(event);
  event["name"] = std::string(what) + "_sort_index";
  event["args"] = {{"sort_index", order}};
  lines.add(event);
}

}  // namespace

std::string trace_text(const RecordedStep& recorded) {
  const auto& [pipeline, cluster, trace, memory] = recorded;
  const std::vector<RankStep> steps = steps_of(pipeline, ranks_of(trace));
  Works works(pipeline, cluster, steps);
  const Tracks all = tracks_of(pipeline, trace);
  const std::int64_t first = first_begin(trace);
  const auto microseconds = [&](std::int64_t time) { return static_cast<double>(time - first) * 1e-3; };
  Lines lines;
  for (int s = 0; s < pipeline.group_count(); ++s)
    add_heading(lines, "process", {{"pid", s}}, fmt::format("stage {}", s), s);
  const auto place_of = [&](int track) {
    return Json{{"pid", all.tracks[static_cast<std::size_t>(track)].stage}, {"tid", track}};
  };
  for (int t = 0; t < static_cast<int>(all.tracks.size()); ++t) {
    const Track& track = all.tracks[static_cast<std::size_t>(t)];
    add_heading(lines, "thread", place_of(t), track.name, t);
    for (const Span& span : track.spans) {
      Json event{{"ph", "X"},
                 {"cat", span.category},
                 {"name", span.name},
                 {"ts", microseconds(span.begin)},
                 {"dur", static_cast<double>(span.end - span.begin) * 1e-3},
                 {"args", arguments_of(span, track.rank, works)}};
      event.update(place_of(t));
      lines.add(event);
    }
  }
  for (std::size_t a = 0; a < all.arrows.size(); ++a) {
    const Arrow& arrow = all.arrows[a];
    Json event{{"ph", "s"}, {"cat", "communication"}, {"name", arrow.name}, {"id", a}};
    event["ts"] = microseconds(arrow.begin);
    event.update(place_of(arrow.from));
    lines.add(event);
    event["ph"] = "f";
    event["bp"] = "e";  // to the span that contains it
    event["ts"] = microseconds(arrow.end);
    event.update(place_of(arrow.to));
    lines.add(event);
  }
  const auto add_counters = [&](int rank, std::int64_t time, const Json& bytes) {
    lines.add({{"ph", "C"},
               {"name", fmt::format("rank {} memory, bytes", rank)},
               {"pid", pipeline.group_of(rank)},
               {"ts", microseconds(time)},
               {"args", bytes}});
  };
  for (int r = 0; r < static_cast<int>(memory.planned.size()); ++r)
    add_counters(r, first,
                 {{"planned", memory.planned[static_cast<std::size_t>(r)]},
                  {"measured", memory.measured[static_cast<std::size_t>(r)]}});
  for (const RankStep& step : steps)
    for (const MemoryPoint& point : memory_over_time(pipeline, trace, step))
      add_counters(step.rank, point.time, {{"alive", point.bytes}});
  return std::move(lines).text({{"program", "shardwright"}, {"cluster", to_text(cluster)}});
}

void write_trace(const std::string& path, const RecordedStep& recorded) {
  write_file(path, trace_text(recorded));
}

}  // namespace shardwright
