// Steps whose time can be counted by hand.

#include "shardwright/simulate/simulation.h"

#include <gtest/gtest.h>

#include "shardwright/simulate/estimate.h"
#include "shardwright/simulate/memory_curve.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

/// Writes the step of a rank, one section a micro-batch.
class Written {
 public:
  explicit Written(int rank, double overlap = 0) {
    rank_.step.rank = rank;
    rank_.overlap = overlap;
    rank_.step.sections.push_back({});
    rank_.sections.emplace_back();
    rank_.step.instructions = {{Act::run, 0, 0, 0}};
  }
  /// A collective of `group`; its number.
  int collective(std::vector<int> group, std::vector<FlowPart> parts) {
    rank_.transfers.push_back({std::move(parts)});
    return add({.crossing = -1}, std::move(group), true, true);
  }
  int crossing(int number, bool gives) {
    rank_.transfers.emplace_back();
    return add({.crossing = number}, {0, 1}, gives, !gives);
  }
  Written& start(int transfer) { return instruct(Act::start, transfer, 0); }
  Written& finish(int transfer) { return instruct(Act::finish, transfer, 0); }
  Written& compute(double seconds) { return instruct(Act::compute, 0, seconds); }
  /// The section so many times.
  Written& micro_batches(int count) {
    rank_.step.instructions.clear();
    for (int m = 0; m < count; ++m) rank_.step.instructions.push_back({Act::run, 0, 0, m});
    return *this;
  }
  const TimedStep& timed() const { return rank_; }

 private:
  int add(PreparedTransfer t, std::vector<int> group, bool gives, bool takes) {
    Part part;
    part.from = gives ? ValueId{0} : ValueId{};
    part.to = takes ? ValueId{0} : ValueId{};
    part.transfer = std::make_shared<Transfer>(Transfer{.group = std::move(group)});
    t.parts.push_back(std::move(part));
    rank_.step.transfers.push_back(std::move(t));
    return static_cast<int>(rank_.step.transfers.size()) - 1;
  }
  Written& instruct(Act act, int what, double seconds) {
    rank_.step.sections[0].instructions.push_back({act, 0, what, 0});
    rank_.sections[0].seconds.push_back(seconds);
    return *this;
  }

  TimedStep rank_;
};

struct Ran {
  std::vector<double> ends, bubbles, waits;
  bool operator==(const Ran&) const = default;
};

/// Joined and event by event, which must be the same.
Ran run(const std::vector<const Written*>& ranks, const std::vector<TimedCrossing>& crossings = {}) {
  std::vector<const TimedStep*> told;
  for (const Written* r : ranks) told.push_back(&r->timed());
  Ran both[2];
  for (const bool with_events : {false, true})
    for (const SimulatedRank& r : simulate(told, crossings, {.levels = 2, .with_events = with_events})) {
      Ran& out = both[with_events];
      out.ends.push_back(r.end);
      out.bubbles.push_back(r.bubble_seconds);
      double waited = 0;
      for (const auto& [transfer, by_phase] : r.waited)
        for (const double seconds : by_phase) waited += seconds;
      out.waits.push_back(waited);
    }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_NEAR(both[0].ends[i], both[1].ends[i], 1e-12);
    EXPECT_NEAR(both[0].waits[i], both[1].waits[i], 1e-12);
    EXPECT_NEAR(both[0].bubbles[i], both[1].bubbles[i], 1e-12);
  }
  return both[1];
}

TEST(Simulation, hides_what_moves_while_a_device_computes) {
  for (const auto& [overlap, end] : std::vector<std::pair<double, double>>{{1, 10}, {0.5, 11}, {0, 16}}) {
    Written rank(0, overlap);
    const int reduce = rank.collective({0, 1}, {{-1, 1}, {0, 5}});
    rank.start(reduce).compute(10).finish(reduce);
    EXPECT_EQ(run({&rank}), (Ran{{end}, {0}, {end - 10}})) << overlap;
  }
}

/// The second of two buckets is on its way when the backward ends, the first is done.
TEST(Simulation, waits_for_a_reduction_behind_the_last_micro_batch) {
  Written rank(0, 1);
  const int first = rank.collective({0, 1}, {{0, 3}}), second = rank.collective({0, 1}, {{0, 3}});
  rank.compute(4).start(first).compute(2).start(second).compute(2).finish(first).finish(second);
  EXPECT_EQ(run({&rank}), (Ran{{10}, {0}, {2}}));
}

/// Groups of their own move at once and share the links; transfers of one group wait for each other.
TEST(Simulation, groups_share_links_and_transfers_of_a_group_queue) {
  const auto ran = [](std::vector<int> other, int level) {
    Written rank(0, 1);
    const int a = rank.collective({0, 1}, {{0, 4}}), b = rank.collective(std::move(other), {{level, 4}});
    rank.start(a).start(b).finish(b).compute(1).finish(a);
    return run({&rank});
  };
  EXPECT_EQ(ran({0, 2}, 0), (Ran{{9}, {0}, {8}}));  // both are there after 8
  EXPECT_EQ(ran({0, 2}, 1), (Ran{{5}, {0}, {4}}));
  EXPECT_EQ(ran({0, 1}, 0), (Ran{{9}, {0}, {8}}));  // the first is in front of the second
}

/// A core that moves bytes itself does one thing at a time.
TEST(Simulation, overlaps_nothing_where_the_device_communicates) {
  Written rank(0, 0);
  const int a = rank.collective({0, 1}, {{-1, 1}, {0, 4}}), b = rank.collective({0, 2}, {{-1, 1}, {1, 4}});
  rank.start(a).start(b).compute(3).finish(b).finish(a);
  EXPECT_EQ(run({&rank}), (Ran{{13}, {0}, {10}}));
}

/// A stage's send beside its reduction on one card: both take twice as long.
TEST(Simulation, sends_share_the_network_card_with_reductions) {
  for (const int level : {0, 1}) {
    Written giver(0, 1), taker(1, 1);
    const int send = giver.crossing(0, true), reduce = giver.collective({0, 2}, {{1, 4}});
    const int receive = taker.crossing(0, false);
    giver.compute(1).start(send).start(reduce).finish(reduce).finish(send);
    taker.start(receive).finish(receive).compute(2);
    const double there = level == 1 ? 9 : 5;
    EXPECT_EQ(run({&giver, &taker}, {{0, 1, {{level, 4}}}}),
              (Ran{{there, there + 2}, {0, there}, {there - 1, 0}}))
        << level;
  }
}

/// Two stages, four micro-batches: the second begins a micro-batch and its message later.
TEST(Simulation, a_stage_begins_when_what_it_reads_is_there) {
  Written giver(0), taker(1);
  const int send = giver.crossing(0, true), receive = taker.crossing(0, false);
  giver.compute(3).start(send).finish(send).micro_batches(4);
  taker.start(receive).finish(receive).compute(1).micro_batches(4);
  EXPECT_EQ(run({&giver, &taker}, {{0, 1, {{-1, 1}, {0, 1}}}}), (Ran{{20, 21}, {8, 17}, {0, 0}}));
}

TEST(Simulation, says_who_cannot_go_on) {
  Written taker(1);
  const int receive = taker.crossing(0, false);
  Written giver(0);
  giver.crossing(0, true);
  taker.start(receive).finish(receive);
  const TimedStep* ranks[] = {&giver.timed(), &taker.timed()};
  EXPECT_THROW(simulate(ranks, {{0, 1, {{0, 1}}}}, {}), InternalError);
}

/// Event by event as in stretches; and the trace says what the estimate says.
TEST(Simulation, traces_add_up_to_the_estimate) {
  for (std::uint64_t seed = 0; seed < testing::draws(120); ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(seed);
    const Pipeline& p = drawn.pipeline;
    const int n = p.rank_count();
    const std::string cpu = n % 2 == 0 ? fmt::format("cpu:2x{}", n / 2) : fmt::format("cpu:{}", n);
    const Cluster cluster = cluster_called(seed % 2 == 0 ? fmt::format("a100-80g:{}", n) : cpu);
    const Estimate e = estimate(p, cluster);
    const StepTrace trace = simulated_trace(p, cluster);
    const double step = steps_of(trace).at(0).seconds();
    EXPECT_NEAR(e.step_seconds(), step, 1e-8 + 1e-6 * step) << drawn.what;
    double exposed = 0, bubble = 0;
    for (const Estimate& stage : stages_of(e)) {
      exposed = std::max(exposed, stage.exposed_communication_seconds);
      bubble += stage.bubble_seconds / step / p.group_count();
    }
    const TraceFigures figures = figures_of(p, trace);
    EXPECT_NEAR(figures.exposed_communication_seconds, exposed, 1e-6 + 1e-4 * step) << drawn.what;
    EXPECT_NEAR(figures.bubble_fraction, bubble, 1e-3) << drawn.what;
  }
}

/// What is alive at the peak is what the arena was made for; the arena is what runs.
TEST(Simulation, memory_over_time_fills_the_arena) {
  for (std::uint64_t seed = 0; seed < testing::draws(120); ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(seed);
    const Pipeline& p = drawn.pipeline;
    const Cluster cluster = cluster_called(fmt::format("a100-80g:{}", p.rank_count()));
    const StepTrace trace = simulated_trace(p, cluster);
    std::int64_t largest = 0;
    for (int group = 0; group < p.group_count(); ++group) {
      const int rank = p.first_rank(group);
      std::int64_t peak = 0;
      for (const MemoryPoint& point : memory_over_time(p, trace, step_of(p, rank)))
        peak = std::max(peak, point.bytes);
      EXPECT_LE(peak, p.arena_bytes(rank)) << drawn.what;
      EXPECT_GT(peak, 0) << drawn.what;
      largest = std::max(largest, p.arena_bytes(rank));
      if (p.micro_batches() > 1 || p.stages_of(rank).size() > 1) continue;
      std::int64_t planned = p.arena_bytes(rank);
      const Program& program = p.stage(group);
      const MemoryUse use = memory_use(program);
      std::int64_t alive = 0;  // without gaps between buffers
      for (std::size_t k = 0; k + 1 < memory_kinds; ++k) alive += use.bytes[k];
      EXPECT_GE(peak, alive) << drawn.what;
      EXPECT_LE(peak, planned) << drawn.what;
    }
    EXPECT_EQ(estimate(p, cluster).arena_bytes, largest) << drawn.what;
  }
}

}  // namespace
}  // namespace shardwright
