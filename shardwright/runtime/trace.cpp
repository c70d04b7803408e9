#include "shardwright/runtime/trace.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

namespace shardwright {
namespace {

constexpr std::size_t numbers_per_event = 4;

bool is_exposed(Activity a) {
  return a == Activity::transfer || a == Activity::finish || a == Activity::progress;
}
bool is_bubble(Activity a) { return a == Activity::receive || a == Activity::sent; }

}  // namespace

std::map<int, Interval> steps_of(const StepTrace& trace) {
  std::map<int, Interval> out;
  for (const auto& events : trace.ranks)
    for (const TraceEvent& e : events) {
      if (e.activity != Activity::step) continue;
      const auto [it, is_new] = out.try_emplace(e.what, Interval{e.begin, e.end});
      it->second.begin = std::min(it->second.begin, e.begin);
      it->second.end = std::max(it->second.end, e.end);
    }
  return out;
}

TraceFigures figures_of(const Pipeline& pipeline, const StepTrace& trace) {
  const std::map<int, Interval> steps = steps_of(trace);
  if (steps.empty()) return {};
  TraceFigures out;
  double bubble = 0, all = 0;
  for (const auto& events : trace.ranks) {
    double exposed = 0;
    for (const TraceEvent& e : events) {
      if (is_exposed(e.activity)) exposed += e.seconds();
      if (is_bubble(e.activity)) bubble += e.seconds();
      if (e.activity != Activity::step) continue;
      const double seconds = steps.at(e.what).seconds();
      all += seconds;
      if (pipeline.stage_count() > 1) bubble += seconds - e.seconds();
    }
    out.exposed_communication_seconds =
        std::max(out.exposed_communication_seconds, exposed / static_cast<double>(steps.size()));
  }
  out.bubble_fraction = all > 0 ? bubble / all : 0;
  return out;
}

std::int64_t clock_name() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return static_cast<std::int64_t>(std::hash<std::string>()(id));
}

std::vector<std::int64_t> packed(std::span<const TraceEvent> events) {
  std::vector<std::int64_t> out;
  out.reserve(events.size() * numbers_per_event);
  for (const TraceEvent& e : events) {
    out.insert(out.end(), {e.begin, e.end});
    out.push_back(static_cast<std::int64_t>(e.what) << 32 | static_cast<std::uint32_t>(e.micro_batch));
    out.push_back(static_cast<int>(e.activity) << 8 | static_cast<int>(e.phase));
  }
  return out;
}

std::vector<TraceEvent> unpacked(std::span<const std::int64_t> n) {
  std::vector<TraceEvent> out;
  for (; n.size() >= numbers_per_event; n = n.subspan(numbers_per_event))
    out.push_back({.begin = n[0],
                   .end = n[1],
                   .what = static_cast<int>(n[2] >> 32),
                   .micro_batch = static_cast<int>(n[2] & 0xffffffff),
                   .activity = static_cast<Activity>(n[3] >> 8),
                   .phase = static_cast<Phase>(n[3] & 0xff)});
  return out;
}

}  // namespace shardwright
