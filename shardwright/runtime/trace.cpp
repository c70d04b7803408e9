#include "shardwright/runtime/trace.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

namespace shardwright {
namespace {

constexpr std::size_t numbers_per_event = 5;

enum class Wait { none, collective, stage };

/// What a rank waits for in an event.
Wait wait_of(const RankStep& step, const TraceEvent& e) {
  if (e.activity == Activity::progress) return Wait::collective;
  if (e.activity != Activity::instruction || e.instruction.act != Act::finish) return Wait::none;
  return step.transfer(e.instruction).crossing < 0 ? Wait::collective : Wait::stage;
}

}  // namespace

std::map<int, Interval> steps_of(const StepTrace& trace) {
  std::map<int, Interval> out;
  for (const auto& events : trace.ranks)
    for (const TraceEvent& e : events) {
      if (e.activity != Activity::step) continue;
      const auto [it, is_new] = out.try_emplace(e.instruction.what, Interval{e.begin, e.end});
      it->second.begin = std::min(it->second.begin, e.begin);
      it->second.end = std::max(it->second.end, e.end);
    }
  return out;
}

TraceFigures figures_of(const Pipeline& pipeline, const StepTrace& trace) {
  const std::map<int, Interval> steps = steps_of(trace);
  if (steps.empty()) return {};
  const std::vector<RankStep> lists = steps_of(pipeline);
  TraceFigures out;
  double bubble = 0, all = 0;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    double exposed = 0;
    for (const TraceEvent& e : trace.ranks[rank]) {
      const Wait wait = wait_of(lists[rank], e);
      if (wait == Wait::collective) exposed += e.seconds();
      if (wait == Wait::stage) bubble += e.seconds();
      if (e.activity != Activity::step) continue;
      const double seconds = steps.at(e.instruction.what).seconds();
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
    const Instruction& i = e.instruction;
    out.push_back(static_cast<std::int64_t>(i.what) << 32 | static_cast<std::uint32_t>(i.micro_batch));
    out.push_back(i.stage);
    out.push_back(static_cast<int>(i.act) << 16 | static_cast<int>(e.activity) << 8 |
                  static_cast<int>(e.phase));
  }
  return out;
}

std::vector<TraceEvent> unpacked(std::span<const std::int64_t> n) {
  std::vector<TraceEvent> out;
  for (; n.size() >= numbers_per_event; n = n.subspan(numbers_per_event))
    out.push_back({.begin = n[0],
                   .end = n[1],
                   .instruction = {.act = static_cast<Act>(n[4] >> 16),
                                   .stage = static_cast<int>(n[3]),
                                   .what = static_cast<int>(n[2] >> 32),
                                   .micro_batch = static_cast<int>(n[2] & 0xffffffff)},
                   .activity = static_cast<Activity>(n[4] >> 8 & 0xff),
                   .phase = static_cast<Phase>(n[4] & 0xff)});
  return out;
}

}  // namespace shardwright
