#include "shardwright/simulate/memory_curve.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/graph/text.h"

namespace shardwright {
namespace {

constexpr int first_node = 1, nodes = 5;

/// A stage with two nodes forward, 1 and 2, and two backward, 3 and 4. 1000 bytes are always there, 100 of a micro-batch
/// from its first node to its last, 10 at its first node.
Program stage_with(int slots) {
  Program p{.graph = parse_program_graph(R"(
mesh [dp=1]
%x = input f32[4] as [4] [-]
%1 = relu %x : f32[4] as [4] [-]
%2 = relu %1 : f32[4] as [4] [-]
backward:
%3 = relu %2 : f32[4] as [4] [-]
%4 = relu %3 : f32[4] as [4] [-]
output %4
)")};
  p.lanes.slots[0] = slots;
  p.buffers = {{.kind = BufferKind::parameter, .bytes = 1000, .begin = {-1}, .end = {nodes}},
               {.kind = BufferKind::activation, .bytes = 100, .slots = slots, .begin = {1}, .end = {4}},
               {.kind = BufferKind::workspace, .bytes = 10, .begin = {1}, .end = {1}}};
  return p;
}

/// Two nodes of 5 and 4 ns, or of 10 and 9, and a ns in which nothing runs.
void add_task(std::vector<TraceEvent>& events, int stage, Phase phase, int micro_batch, std::int64_t begin) {
  const bool is_forward = phase == Phase::forward;
  const int node = is_forward ? first_node : first_node + 2;
  const std::int64_t middle = begin + (is_forward ? 5 : 10), end = begin + (is_forward ? 9 : 19);
  const auto add = [&](std::int64_t from, std::int64_t to, Act act, int what) {
    events.push_back({from, to, {act, stage, what, micro_batch}, Activity::instruction, phase});
  };
  add(begin, middle, Act::compute, node);
  add(middle, end, Act::compute, node + 1);
  add(begin, end, Act::run, is_forward ? 0 : 1);
}

/// 1f1b of two stages and four micro-batches: a backward takes as long as two forwards.
class MemoryCurve : public ::testing::Test {
 protected:
  MemoryCurve() {
    pipeline_.stages = {stage_with(2), stage_with(1)};
    pipeline_.pipelining = {.stages = 2, .micro_batches = 4};
    trace_.ranks.resize(2);
  }

  /// In tens of ns; the update is over at 160 ns.
  std::vector<MemoryPoint> over_time(int stage, const std::vector<int>& forwards,
                                     const std::vector<int>& backwards) {
    std::vector<TraceEvent>& events = trace_.ranks[static_cast<std::size_t>(stage)];
    for (std::size_t m = 0; m < forwards.size(); ++m) {
      add_task(events, stage, Phase::forward, static_cast<int>(m), 10 * forwards[m]);
      add_task(events, stage, Phase::backward, static_cast<int>(m), 10 * backwards[m]);
    }
    events.push_back({150, 160, {Act::run, stage, 2, 3}, Activity::instruction, Phase::update});
    std::ranges::stable_sort(events, {}, &TraceEvent::end);
    return memory_over_time(pipeline_, trace_, RankStep{.rank = stage});
  }

  Pipeline pipeline_;
  StepTrace trace_;
};

/// 0 1 . . 0 0 2 1 1 3 2 2 . 3 3: the second micro-batch comes beside the first; from then on one goes when the next
/// comes, until there are none to come. The last one's slot is free when the update is over.
TEST_F(MemoryCurve, of_the_first_stage_has_two_micro_batches_in_slots) {
  EXPECT_EQ(over_time(0, {0, 1, 6, 9}, {4, 7, 10, 13}), (std::vector<MemoryPoint>{{0, 1110},
                                                                                  {5, 1100},
                                                                                  {10, 1210},
                                                                                  {15, 1200},
                                                                                  {59, 1100},
                                                                                  {60, 1210},
                                                                                  {65, 1200},
                                                                                  {89, 1100},
                                                                                  {90, 1210},
                                                                                  {95, 1200},
                                                                                  {119, 1100},
                                                                                  {160, 1000}}));
}

/// The same by what it is for: at each moment the kinds are all of it.
TEST_F(MemoryCurve, is_of_kinds) {
  over_time(0, {0, 1, 6, 9}, {4, 7, 10, 13});
  const std::vector<MemoryMoment> moments = memory_by_kind(pipeline_, trace_, RankStep{.rank = 0});
  const std::vector<MemoryPoint> points = memory_over_time(pipeline_, trace_, RankStep{.rank = 0});
  ASSERT_EQ(moments.size(), points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(moments[i].time, points[i].time);
    EXPECT_EQ(total_of(moments[i].bytes), points[i].bytes);
  }
  EXPECT_EQ(moments[2].bytes, (BytesByKind{1000, 0, 0, 200, 0, 10}));
  EXPECT_EQ(moments.back().bytes, (BytesByKind{1000, 0, 0, 0, 0, 0}));
}

/// . 0 0 0 1 1 1 2 2 2 3 3 3: one at a time.
TEST_F(MemoryCurve, of_the_last_stage_has_one_micro_batch) {
  EXPECT_EQ(over_time(1, {1, 4, 7, 10}, {2, 5, 8, 11}), (std::vector<MemoryPoint>{{10, 1110},
                                                                                  {15, 1100},
                                                                                  {40, 1110},
                                                                                  {45, 1100},
                                                                                  {70, 1110},
                                                                                  {75, 1100},
                                                                                  {100, 1110},
                                                                                  {105, 1100},
                                                                                  {160, 1000}}));
}

/// The slots that are counted are those that the schedule asks for.
TEST_F(MemoryCurve, counts_the_slots_of_the_schedule) {
  EXPECT_EQ(micro_batches_of(pipeline_.pipelining, 0).slots(), 2);
  EXPECT_EQ(micro_batches_of(pipeline_.pipelining, 1).slots(), 1);
  using enum Phase;
  EXPECT_EQ(tasks_of(pipeline_.pipelining, 0), (std::vector<Task>{{forward, 0},
                                                                  {forward, 1},
                                                                  {backward, 0},
                                                                  {forward, 2},
                                                                  {backward, 1},
                                                                  {forward, 3},
                                                                  {backward, 2},
                                                                  {backward, 3}}));
}

}  // namespace
}  // namespace shardwright
