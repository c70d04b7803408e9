#include "shardwright/search/automatic/pipeline_seconds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "shardwright/base/random.h"

namespace shardwright::automatic {
namespace {

/// The step by events: every task in its device's order, after what it reads, which takes its crossing from another device.
double by_events(const Pipelining& p, const std::vector<Pass>& stages,
                 const std::vector<Crossing>& crossings = {}) {
  using Key = std::tuple<Phase, int, int>;  // phase, micro-batch, part
  std::map<Key, double> end;
  std::vector<std::vector<Task>> tasks;
  for (int s = 0; s < p.stages; ++s) tasks.push_back(tasks_of(p, s));
  std::vector<std::size_t> next(tasks.size(), 0);
  std::vector<double> free(tasks.size(), 0);
  double last = 0;
  for (bool moves = true; moves;) {
    moves = false;
    for (int s = 0; s < p.stages; ++s) {
      const auto i = static_cast<std::size_t>(s);
      while (next[i] < tasks[i].size()) {
        const Task& task = tasks[i][next[i]];
        const int part = task.chunk * p.stages + s;
        const bool is_forward = task.phase == Phase::forward;
        double begin = free[i];
        const int before = is_forward ? part - 1 : part + 1;
        if (before >= 0 && before < p.parts()) {
          const auto it = end.find({task.phase, task.micro_batch, before});
          if (it == end.end()) break;
          const auto sender = static_cast<std::size_t>(std::min(part, before));
          begin = std::max(begin, it->second + (crossings.empty() ? 0 : crossings[sender].seconds()));
        }
        const double own = is_forward ? stages[i].forward : stages[i].backward;
        free[i] = begin + own / p.schedule.chunks;
        end[{task.phase, task.micro_batch, part}] = free[i];
        last = std::max(last, free[i]);
        ++next[i];
        moves = true;
      }
    }
  }
  return last;
}

std::vector<Pipelining> pipelines() {
  std::vector<Pipelining> out;
  for (int stages : {1, 2, 3, 4, 8})
    for (int count : {1, 2, 4, 8, 24}) {
      out.push_back({Schedule::one_forward_one_backward(), stages, count});
      if (stages > 1) out.push_back({Schedule::gpipe(), stages, count});
      for (int chunks : {2, 4})
        if (stages > 1 && count % stages == 0) out.push_back({Schedule::interleaved(chunks), stages, count});
    }
  return out;
}

TEST(PipelineSeconds, of_equal_stages_is_what_events_say) {
  for (const Pipelining& p : pipelines()) {
    const std::vector<Pass> stages(static_cast<std::size_t>(p.stages), {1, 2});
    EXPECT_NEAR(pipeline_seconds(p, stages), by_events(p, stages), 1e-9)
        << name_of(p.schedule) << " " << p.stages << " stages, " << p.micro_batches << " micro-batches";
  }
}

TEST(PipelineSeconds, of_unequal_stages_is_never_more_and_hardly_less) {
  const RandomStream random(7, "stages");
  std::uint64_t drawn = 0;
  double worst = 0;
  for (const Pipelining& p : pipelines())
    for (int n = 0; n < 20; ++n) {
      std::vector<Pass> stages;
      for (int s = 0; s < p.stages; ++s) {
        const double forward = 1 + 0.2 * random.uniform(drawn++);
        stages.push_back({forward, 2 * forward});
      }
      const double formula = pipeline_seconds(p, stages), events = by_events(p, stages);
      EXPECT_LE(formula, events * (1 + 1e-9))
          << name_of(p.schedule) << " " << p.stages << " stages, " << p.micro_batches << " micro-batches";
      worst = std::max(worst, events / formula - 1);
    }
  EXPECT_LT(worst, 0.07);
}

TEST(PipelineSeconds, has_a_least_that_no_cut_undercuts) {
  const RandomStream random(8, "stages");
  std::uint64_t drawn = 0;
  for (const Pipelining& p : pipelines())
    for (int n = 0; n < 20; ++n) {
      std::vector<Pass> stages;
      Pass all;
      for (int s = 0; s < p.stages; ++s) {
        const double forward = 1 + 0.3 * random.uniform(drawn++);
        stages.push_back({forward, 2 * forward});
        all += stages.back();
      }
      EXPECT_LE(least_pipeline_seconds(p, all), by_events(p, stages) * (1 + 1e-9))
          << name_of(p.schedule) << " " << p.stages << " stages, " << p.micro_batches << " micro-batches";
    }
}

TEST(PipelineSeconds, grows_with_every_micro_batch_where_crossings_are_long) {
  for (int stages : {2, 4, 8}) {
    const Pipelining p{Schedule::one_forward_one_backward(), stages, 32};
    const std::vector<Pass> passes(static_cast<std::size_t>(stages), {1, 2});
    for (double crossing : {0.03, 0.1, 0.5}) {
      const std::vector<Crossing> crossings(static_cast<std::size_t>(p.parts() - 1), {.moving = crossing});
      const double events = by_events(p, passes, crossings);
      EXPECT_NEAR(pipeline_seconds(p, passes, crossings), events, (crossing < 0.2 ? 0.03 : 0.07) * events)
          << stages << " stages, crossing " << crossing;
    }
  }
}

/// Of several chunks the micro-batches that are under way were counted as if each had all its chunks alive: what none was to undercut was
/// above what events say.
TEST(PipelineSeconds, have_a_least_that_no_crossing_undercuts) {
  const RandomStream random(9, "crossings");
  std::uint64_t drawn = 0;
  for (const Pipelining& p : pipelines())
    for (double crossing : {0.1, 0.5, 2.0}) {
      std::vector<Pass> stages;
      for (int s = 0; s < p.stages; ++s) {
        const double forward = 1 + 0.2 * random.uniform(drawn++);
        stages.push_back({forward, 2 * forward});
      }
      const std::vector<Crossing> crossings(static_cast<std::size_t>(p.parts() - 1), {.moving = crossing});
      EXPECT_LE(sure_pipeline_seconds(p, stages, crossings), by_events(p, stages, crossings) * (1 + 1e-9))
          << name_of(p.schedule) << " " << p.stages << " stages, " << p.micro_batches
          << " micro-batches, crossing " << crossing;
    }
}

/// Two stages to a node: every second crossing leaves it.
TEST(PipelineSeconds, waits_for_what_leaves_a_node_alone) {
  for (int stages : {4, 8}) {
    const Pipelining p{Schedule::one_forward_one_backward(), stages, 64};
    const std::vector<Pass> passes(static_cast<std::size_t>(stages), {1, 2});
    for (double slow : {0.5, 3.0}) {
      std::vector<Crossing> crossings;
      for (int part = 0; part + 1 < p.parts(); ++part)
        crossings.push_back({.moving = part % 2 == 1 ? slow : 0.001});
      const double events = by_events(p, passes, crossings);
      EXPECT_NEAR(pipeline_seconds(p, passes, crossings), events, (slow < 1 ? 0.1 : 0.2) * events)
          << stages << " stages, crossing " << slow;
      EXPECT_GT(events, 1.1 * by_events(p, passes)) << stages << " stages, crossing " << slow;
    }
  }
}

}  // namespace
}  // namespace shardwright::automatic
