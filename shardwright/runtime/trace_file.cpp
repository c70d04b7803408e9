#include "shardwright/runtime/trace_file.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

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
  std::string text() && {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + std::move(text_) + "\n]}\n";
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

Json arguments_of(const Span& span) {
  Json out = Json::object();
  if (span.micro_batch >= 0) out["micro_batch"] = span.micro_batch;
  if (span.nodes.empty()) return out;
  out["phase"] = name_of(span.phase);
  out["nodes"] = span.nodes;
  out["operators"] = span.operators;
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

MemoryCurves memory_curves(const Pipeline& pipeline, const StepTrace& trace) {
  MemoryCurves out;
  for (int rank : ranks_of(trace)) out[rank] = memory_over_time(pipeline, trace, rank);
  return out;
}

std::string trace_text(const Pipeline& pipeline, const StepTrace& trace, const MemoryMarks& memory,
                       const MemoryCurves& curves) {
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
                 {"args", arguments_of(span)}};
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
  for (const auto& [rank, curve] : curves)
    for (const MemoryPoint& point : curve) add_counters(rank, point.time, {{"alive", point.bytes}});
  return std::move(lines).text();
}

}  // namespace shardwright
