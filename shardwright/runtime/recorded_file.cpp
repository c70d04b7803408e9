#include "shardwright/runtime/recorded_file.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

using Document = nlohmann::ordered_json;

struct Window {
  double begin = 0, end = 0;
};

/// The steps of a rank: told as such, or from what follows an update to the end of the next one.
class RankWindows {
 public:
  /// In the order of their begins.
  void add(const std::string& name, double begin, double end) {
    if (name.starts_with("step ")) {
      said_.push_back({begin, end});
      return;
    }
    const bool is_update = name.starts_with("update");
    if (made_.empty() || (is_over_ && !is_update)) made_.push_back({begin, end});
    made_.back().end = std::max(made_.back().end, end);
    is_over_ = is_update;
  }

  /// Without one that has no update.
  std::vector<Window> windows() const {
    if (!said_.empty()) return said_;
    std::vector<Window> out = made_;
    if (!out.empty() && !is_over_) out.pop_back();
    return out;
  }

 private:
  std::vector<Window> said_, made_;
  bool is_over_ = false;
};

std::string first_of(const Document& arguments, const char* key) {
  const auto it = arguments.find(key);
  return it != arguments.end() && it->is_array() && !it->empty() ? it->front().get<std::string>() : "";
}

RecordedSpan span_of(const Document& event, double begin, double end) {
  const Document arguments = event.value("args", Document::object());
  const Document work = arguments.value("work", Document::object());
  RecordedSpan out{.category = event.at("cat").get<std::string>(),
                   .node = first_of(arguments, "nodes"),
                   .what = work.value("collective", first_of(arguments, "operators")),
                   .phase = arguments.value("phase", ""),
                   .begin = begin,
                   .end = end};
  return out;
}

struct Read {
  std::map<int, std::vector<RecordedSpan>> spans;  // by rank
  std::map<int, std::vector<Window>> windows;
};

Read read_events(const Document& events) {
  const std::map<int, int> rank_of = ranks_of_tracks(events);
  std::map<int, std::vector<const Document*>> by_rank;
  for (const Document& event : events) {
    if (event.value("ph", "") != "X" || event.value("cat", "") == "communication") continue;
    const auto rank = rank_of.find(event.at("tid").get<int>());
    if (rank != rank_of.end()) by_rank[rank->second].push_back(&event);
  }
  Read out;
  for (auto& [rank, own] : by_rank) {
    std::ranges::stable_sort(own, {}, [](const Document* e) { return e->at("ts").get<double>(); });
    RankWindows windows;
    for (const Document* event : own) {
      const double begin = event->at("ts").get<double>() * 1e-6,
                   end = begin + event->at("dur").get<double>() * 1e-6;
      if (event->at("cat") == "schedule")
        windows.add(event->at("name").get<std::string>(), begin, end);
      else
        out.spans[rank].push_back(span_of(*event, begin, end));
    }
    out.windows[rank] = windows.windows();
  }
  return out;
}

/// Of all ranks the window of the step whose length is the median.
Window median_window(const std::map<int, std::vector<Window>>& windows) {
  if (windows.empty() || windows.begin()->second.empty()) throw error("tells of no whole step");
  const std::size_t count = windows.begin()->second.size();
  std::vector<Window> steps(count, {std::numeric_limits<double>::max(), 0});
  for (const auto& [rank, own] : windows) {
    if (own.size() != count)
      throw error("has {} steps of rank {} but {} of rank {}", own.size(), rank, count,
                  windows.begin()->first);
    for (std::size_t i = 0; i < count; ++i)
      steps[i] = {std::min(steps[i].begin, own[i].begin), std::max(steps[i].end, own[i].end)};
  }
  std::ranges::sort(steps, {}, [](const Window& w) { return w.end - w.begin; });
  return steps[(count - 1) / 2];
}

MeasuredRanks step_of(const Document& document) {
  Read read = read_events(document.at("traceEvents"));
  const Window window = median_window(read.windows);
  MeasuredRanks out{.seconds = window.end - window.begin};
  out.ranks.resize(static_cast<std::size_t>(read.windows.rbegin()->first) + 1);
  for (auto& [rank, spans] : read.spans) {
    std::erase_if(spans, [&](const RecordedSpan& s) { return s.begin < window.begin || s.end > window.end; });
    out.ranks[static_cast<std::size_t>(rank)] = std::move(spans);
  }
  return out;
}

}  // namespace

std::map<int, int> ranks_of_tracks(const nlohmann::ordered_json& events) {
  std::map<int, int> out;
  for (const Document& event : events) {
    if (event.value("name", "") != "thread_name") continue;
    const std::string name = event.at("args").at("name").get<std::string>();
    const std::string rank = name.substr(0, name.find(" ("));
    if (!rank.starts_with("rank ")) continue;
    constexpr std::int64_t most_ranks = 1 << 20;
    const std::int64_t number = to_integer(rank.substr(5)).value_or(-1);
    if (number >= 0 && number < most_ranks) out[event.at("tid").get<int>()] = static_cast<int>(number);
  }
  return out;
}

nlohmann::ordered_json trace_document(const std::string& text) {
  Document out = Document::parse(text);
  if (!out.is_object() || !out.contains("otherData") ||
      out["otherData"].value("program", "") != "shardwright")
    throw error("is no trace of this program; write one with train --trace");
  return out;
}

bool is_trace_text(const std::string& text) {
  return trim(text).starts_with('{') && text.find("\"traceEvents\"") != text.npos;
}

MeasuredRanks recorded_step(const std::string& text, const std::string& path) {
  try {
    return step_of(trace_document(text));
  } catch (const Document::exception& e) {
    throw error("{}: is no trace of this program: {}", path, e.what());
  } catch (const Error& e) {
    throw with_context(e, path);
  }
}

}  // namespace shardwright
