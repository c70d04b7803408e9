// The picture of a step: its sums are those of the estimate, whatever is joined.
#include "shardwright/frontend/timeline.h"

#include <gtest/gtest.h>

#include <numeric>

#include "shardwright/frontend/graph_step.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/ops/calls.h"
#include "shardwright/passes/compile.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {
namespace {

struct Step {
  PlannedStep planned;
  Pipeline pipeline;
  std::vector<SimulatedRank> ranks;
  StepTrace trace;

  Timeline timeline(const TimelineLimits& limits = {}) const {
    return timeline_of(pipeline, ranks, trace, limits);
  }
};

/// Of two products, on 4 devices in so many stages.
Step step_of(int stages, int micro_batches) {
  Trace trace;
  const Parameter first{"first", {64, 64}, uniform(1)}, second{"second", {64, 64}, uniform(1)};
  const Traced x = trace.input("x", {DType::f32, {4096, 64}});
  const Traced h = matmul("up")(x, first);
  const Traced y = trace.input("y", {DType::f32, {4096, 64}});
  const Traced loss = MeanSquaredError{}(matmul("down")(h, second), y);
  trace.graph().outputs = {loss.id};
  TrainOptions options{.devices = 4, .search = "recursive"};
  options.settings.pipelining = {.stages = stages, .micro_batches = micro_batches};
  PlannedStep planned =
      planned_step(plan_graph({std::move(trace.graph()), trace.constraints()}, {}, options), options);
  Pipeline pipeline = compile_pipeline(planned.network.graph, planned.network.plan, {});
  std::vector<SimulatedRank> ranks = simulated_ranks(pipeline, planned.network.plan.cluster);
  StepTrace events = trace_of(ranks, pipeline);
  return {std::move(planned), std::move(pipeline), std::move(ranks), std::move(events)};
}

void expect_sums(const Step& step, const Timeline& timeline) {
  const Estimate e = estimate(step.pipeline, step.planned.network.plan.cluster);
  const auto stages = stages_of(e);
  ASSERT_EQ(timeline.ranks.size(), stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const SpentTimes times = times_of(timeline, timeline.ranks[s]);
    const auto of = [&](SpentOn d) { return static_cast<double>(times[static_cast<std::size_t>(d)]) * 1e-9; };
    const double slack = 1e-9 * static_cast<double>(timeline.events + 10) + 1e-3 * e.step_seconds();
    EXPECT_NEAR(of(SpentOn::compute) + of(SpentOn::again), stages[s].compute_seconds, slack);
    EXPECT_NEAR(of(SpentOn::communication), stages[s].exposed_communication_seconds, slack);
    EXPECT_NEAR(of(SpentOn::waiting), stages[s].bubble_seconds, slack);
  }
}

TEST(Timeline, adds_up_to_the_estimate) {
  for (const auto& [stages, micro_batches] : {std::pair(1, 1), {1, 4}, {2, 4}, {2, 8}})
    expect_sums(step_of(stages, micro_batches), step_of(stages, micro_batches).timeline());
}

TEST(Timeline, adds_up_when_neighbours_are_joined) {
  const Step step = step_of(2, 16);
  const Timeline whole = step.timeline();
  EXPECT_FALSE(whole.joins_pieces);
  EXPECT_FALSE(whole.joins_blocks);
  const Timeline joined = step.timeline({.pieces = 4, .blocks = 8});
  EXPECT_TRUE(joined.joins_blocks);
  EXPECT_LT(joined.ranks[0].blocks.size(), whole.ranks[0].blocks.size());
  expect_sums(step, joined);
}

/// A rank is in one block or another from the begin of the step to its end.
TEST(Timeline, has_no_gaps) {
  for (const TimelineLimits& limits : {TimelineLimits{}, TimelineLimits{.pieces = 4, .blocks = 8}}) {
    const Timeline timeline = step_of(2, 8).timeline(limits);
    for (const RankTimeline& rank : timeline.ranks) {
      std::int64_t now = 0;
      for (const TimelineBlock& b : rank.blocks) {
        EXPECT_EQ(b.begin, now);
        now = b.end;
      }
      EXPECT_EQ(now, timeline.end);
    }
  }
}

/// Tasks of micro-batches do the same: the picture does not grow with them.
TEST(Timeline, shares_what_micro_batches_do) {
  const Step few = step_of(1, 4), many = step_of(1, 16);
  EXPECT_EQ(many.timeline().ranks[0].blocks.size(), few.timeline().ranks[0].blocks.size() + 2 * 12);
  EXPECT_LE(many.timeline().patterns.size(), few.timeline().patterns.size());
}

/// Here devices move their transfers themselves, one after the other: none is slowed down.
TEST(Timeline, has_all_communication_on_the_wire) {
  const Step step = step_of(1, 1);
  ASSERT_EQ(step.planned.network.plan.cluster.overlap, 0);
  const Timeline timeline = step.timeline();
  std::int64_t wire = 0;
  for (const TimelinePattern& p : timeline.patterns)
    for (const WirePiece& w : p.wire) wire += w.busy;
  for (const WirePiece& w : timeline.ranks[0].wire) wire += w.busy;
  const double seconds = estimate(step.pipeline, step.planned.network.plan.cluster).communication_seconds;
  EXPECT_GT(seconds, 0);
  EXPECT_NEAR(static_cast<double>(wire) * 1e-9, seconds, 1e-6);
}

/// Of `rank`, how often what is called `what...` is drawn.
int drawn(const Timeline& timeline, std::size_t rank, const std::string& what) {
  int out = 0;
  const auto count = [&](const std::vector<WirePiece>& wire) {
    for (const WirePiece& w : wire) out += w.name.starts_with(what) ? w.count : 0;
  };
  count(timeline.ranks[rank].wire);
  for (const TimelineBlock& b : timeline.ranks[rank].blocks) count(timeline.patterns[b.pattern].wire);
  return out;
}

TEST(Timeline, sends_what_the_next_stage_receives) {
  const Timeline timeline = step_of(2, 8).timeline();
  EXPECT_GE(drawn(timeline, 0, "send "), 8);
  EXPECT_EQ(drawn(timeline, 0, "send "), drawn(timeline, 1, "receive "));
  EXPECT_EQ(drawn(timeline, 1, "send "), drawn(timeline, 0, "receive "));
}

/// What the script reads: pieces of all patterns are as long as they are here.
TEST(Timeline, is_written_in_whole_ticks) {
  const Timeline timeline = step_of(2, 4).timeline();
  const Json json = json_of(timeline);
  ASSERT_EQ(json.at("patterns").size(), timeline.patterns.size());
  const double tick = json.at("tick_seconds").get<double>() * 1e9;
  for (std::size_t p = 0; p < timeline.patterns.size(); ++p) {
    const Json& list = json.at("patterns")[p].at("p");
    double written = 0, is = 0;
    for (std::size_t i = 0; i < list.size(); i += 4) {  // nothing is joined
      ASSERT_LE(list[i + 2].get<int>(), 3);
      written += list[i + 3].get<double>();
    }
    for (const TimelinePiece& piece : timeline.patterns[p].pieces)
      is += static_cast<double>(std::accumulate(piece.times.begin(), piece.times.end(), std::int64_t{0}));
    EXPECT_NEAR(written * tick, is, tick);
  }
}

}  // namespace
}  // namespace shardwright
