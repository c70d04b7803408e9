// The picture of a step: its sums are those of the estimate, whatever is joined.
#include "shardwright/frontend/timeline.h"

#include <gtest/gtest.h>

#include <array>
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

/// Of so many products, on 4 devices in so many stages.
Step step_of(int stages, int micro_batches, int products = 2) {
  Trace trace;
  std::vector<Parameter> weights;
  for (int i = 0; i < products; ++i) weights.emplace_back(fmt::format("w{}", i), Shape{64, 64}, uniform(1));
  Traced h = trace.input("x", {DType::f32, {4096, 64}});
  for (int i = 0; i < products; ++i)
    h = matmul(fmt::format("product{}", i))(h, weights[static_cast<std::size_t>(i)]);
  const Traced y = trace.input("y", {DType::f32, {4096, 64}});
  const Traced loss = MeanSquaredError{}(h, y);
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

int pieces_in(const Timeline& timeline) {
  int out = 0;
  for (const TimelinePattern& pattern : timeline.patterns)
    for (const TimelinePiece& p : pattern.pieces) out += p.count;
  return out;
}

/// What is joined stands for as many kernels as there were, and is called after the longest.
TEST(Timeline, joins_pieces_side_by_side) {
  const Step step = step_of(1, 1, 40);
  const Timeline whole = step.timeline(), joined = step.timeline({.pieces = 16});
  ASSERT_FALSE(whole.joins_pieces);
  ASSERT_TRUE(joined.joins_pieces);
  EXPECT_FALSE(joined.joins_blocks);
  ASSERT_EQ(joined.patterns.size(), whole.patterns.size());
  EXPECT_EQ(pieces_in(joined), pieces_in(whole));
  bool has_joined = false;
  for (std::size_t p = 0; p < whole.patterns.size(); ++p) {
    std::size_t at = 0;
    for (const TimelinePiece& piece : joined.patterns[p].pieces) {
      std::int64_t longest = -1;
      std::string name;
      SpentTimes times{};
      for (int i = 0; i < piece.count; ++i) {
        const TimelinePiece& own = whole.patterns[p].pieces.at(at++);
        const std::int64_t length = std::accumulate(own.times.begin(), own.times.end(), std::int64_t{0});
        if (length > longest) longest = length, name = own.name;
        for (std::size_t d = 0; d < spent_kinds; ++d) times[d] += own.times[d];
      }
      has_joined = has_joined || piece.count > 1;
      EXPECT_EQ(piece.times, times);
      EXPECT_EQ(piece.name, name);
    }
    EXPECT_EQ(at, whole.patterns[p].pieces.size());
  }
  EXPECT_TRUE(has_joined);
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

/// The same, `factor` times as long.
Timeline stretched(Timeline timeline, std::int64_t factor) {
  timeline.end *= factor;
  for (TimelinePattern& pattern : timeline.patterns)
    for (TimelinePiece& p : pattern.pieces)
      for (std::int64_t& t : p.times) t *= factor;
  for (RankTimeline& rank : timeline.ranks)
    for (TimelineBlock& b : rank.blocks) b.begin *= factor, b.end *= factor;
  return timeline;
}

/// The ticks of each piece by what it is spent on, as the script reads them.
std::vector<std::array<double, spent_kinds>> read_pieces(const Json& list) {
  std::vector<std::array<double, spent_kinds>> out;
  for (std::size_t i = 0; i < list.size();) {
    std::array<double, spent_kinds>& piece = out.emplace_back();
    const auto code = list[i + 2].get<std::size_t>();
    if (code < spent_kinds) {
      piece[code] = list[i + 3].get<double>();
      i += 4;
      continue;
    }
    for (std::size_t d = 0; d < spent_kinds; ++d) piece[d] = list[i + 3 + d].get<double>();
    i += 3 + spent_kinds;
  }
  return out;
}

/// What the script reads: pieces and blocks begin and end where they do here, to half a tick, however long the step is.
TEST(Timeline, is_written_in_whole_ticks) {
  const Step step = step_of(2, 4, 12);
  for (const Timeline& timeline : {step.timeline(), stretched(step.timeline(), 7919),
                                   stretched(step.timeline({.pieces = 16, .blocks = 12}), 7919)}) {
    const Json json = json_of(timeline);
    ASSERT_EQ(json.at("patterns").size(), timeline.patterns.size());
    const double tick = json.at("tick_seconds").get<double>() * 1e9;
    const auto ticks = json.at("ticks").get<double>();
    EXPECT_LE(ticks, 1e8);
    EXPECT_TRUE(tick == 1 || ticks > 1e7) << tick;  // no coarser than it has to be
    EXPECT_NEAR(ticks * tick, static_cast<double>(timeline.end), tick);
    for (std::size_t p = 0; p < timeline.patterns.size(); ++p) {
      const auto written = read_pieces(json.at("patterns")[p].at("p"));
      const auto& pieces = timeline.patterns[p].pieces;
      ASSERT_EQ(written.size(), pieces.size());
      double at = 0, is = 0;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        for (std::size_t d = 0; d < spent_kinds; ++d) {
          at += written[i][d], is += static_cast<double>(pieces[i].times[d]);
          EXPECT_NEAR(written[i][d] * tick, static_cast<double>(pieces[i].times[d]), 1.001 * tick);
        }
        EXPECT_NEAR(at * tick, is, 0.501 * tick);
      }
    }
    for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
      const Json& list = json.at("ranks")[r].at("blocks");
      ASSERT_EQ(list.size(), 6 * timeline.ranks[r].blocks.size());
      double at = 0;
      for (std::size_t i = 0; i < timeline.ranks[r].blocks.size(); ++i) {
        const TimelineBlock& b = timeline.ranks[r].blocks[i];
        at += list[6 * i].get<double>();
        EXPECT_NEAR(at * tick, static_cast<double>(b.begin), 0.501 * tick);
        at += list[6 * i + 1].get<double>();
        EXPECT_NEAR(at * tick, static_cast<double>(b.end), 0.501 * tick);
        EXPECT_EQ(list[6 * i + 2], static_cast<int>(b.kind));
        EXPECT_EQ(list[6 * i + 5], b.pattern);
      }
    }
  }
}

}  // namespace
}  // namespace shardwright
