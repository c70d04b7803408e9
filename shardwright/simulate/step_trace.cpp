#include "shardwright/simulate/step_trace.h"

#include <algorithm>

namespace shardwright {
namespace {

enum class Wait { none, collective, stage };

/// What a rank waits for in an event.
Wait wait_of(const RankStep& step, const TraceEvent& e) {
  if (e.activity == Activity::progress) return Wait::collective;
  if (e.activity != Activity::instruction || e.instruction.act != Act::finish) return Wait::none;
  return step.transfer(e.instruction).crossing < 0 ? Wait::collective : Wait::stage;
}

}  // namespace

std::vector<int> ranks_of(const StepTrace& trace) {
  std::vector<int> out;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r)
    if (!trace.ranks[r].empty()) out.push_back(static_cast<int>(r));
  return out;
}

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
  const std::vector<int> ranks = ranks_of(trace);
  const std::vector<RankStep> lists = steps_of(pipeline, ranks);
  TraceFigures out;
  double bubble = 0, all = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    double exposed = 0;
    for (const TraceEvent& e : trace.ranks[static_cast<std::size_t>(ranks[r])]) {
      const Wait wait = wait_of(lists[r], e);
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

}  // namespace shardwright
