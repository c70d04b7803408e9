// What every rank's list holds, on drawn pipelines; what it looks like is in tests/golden/lower/steps_*.test.

#include "shardwright/lower/step.h"
#include "shardwright/base/index.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "shardwright/graph/op.h"
#include "shardwright/lower/traffic.h"
#include "shardwright/runtime/session.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

/// How often a node runs in a step.
int times_of(const Program& program, const Node& node) {
  return node.phase == Phase::update ? 1 : program.micro_batches;
}

class DrawnSteps : public ::testing::TestWithParam<int> {
 protected:
  DrawnSteps() : drawn_(testing::drawn_pipeline(static_cast<std::uint64_t>(GetParam()))) {}

  testing::DrawnPipeline drawn_;
  const Pipeline& pipeline_ = drawn_.pipeline;
};

TEST_P(DrawnSteps, run_every_node_with_every_micro_batch) {
  SCOPED_TRACE(drawn_.what);
  for (RankStep& step : steps_of(pipeline_)) {
    const RankStep list = unrolled(step);
    std::map<std::pair<int, int>, std::set<int>> ran;  // by stage and node: micro-batches
    std::map<std::pair<int, int>, int> times;
    const auto ran_with = [&](const Instruction& i, int node) {
      ran[{i.stage, node}].insert(i.micro_batch);
      ++times[{i.stage, node}];
    };
    for (const Instruction& i : list.instructions) {
      if (i.act == Act::compute || i.act == Act::copy || i.act == Act::keep) ran_with(i, i.what);
      if (i.act != Act::finish) continue;
      if (list.transfer(i).crossing < 0) ran_with(i, list.transfer(i).node.index);
    }
    for (int stage : pipeline_.stages_of(list.rank)) {
      const Program& program = pipeline_.stage(stage);
      for (const Fusion& f : fusions_of(program.graph)) {
        const Node& node = program.graph.node(f.begin);
        const bool is_seen_elsewhere = node.op->is_alias && program.offset(node.operands.front()) ==
                                                                program.offset(node.results.front());
        if (node.op->kind != OpKind::step && (node.op->kind != OpKind::compute || is_seen_elsewhere))
          continue;
        const int want = times_of(program, node);
        EXPECT_EQ(times[std::pair(stage, f.begin.index)], want) << program.graph.name_of(f.begin);
        EXPECT_EQ(ran[std::pair(stage, f.begin.index)].size(), at(want)) << program.graph.name_of(f.begin);
      }
    }
  }
}

TEST_P(DrawnSteps, finish_what_they_start_and_start_nothing_twice) {
  SCOPED_TRACE(drawn_.what);
  for (RankStep& step : steps_of(pipeline_)) {
    const std::vector<int> times = times_started(step);
    const RankStep list = unrolled(step);
    std::set<std::pair<int, int>> open;  // transfer and copy
    std::vector<int> started(list.transfers.size()), finished(list.transfers.size());
    for (const Instruction& i : list.instructions) {
      if (i.act != Act::start && i.act != Act::finish) continue;
      const std::pair copy{i.what, i.micro_batch % list.transfer(i).copies};
      if (i.act == Act::start) {
        EXPECT_TRUE(open.insert(copy).second) << to_text(list, i, pipeline_);
        ++started[at(i.what)];
      } else {
        EXPECT_EQ(open.erase(copy), 1U) << to_text(list, i, pipeline_);
        ++finished[at(i.what)];
      }
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(started, times);
    EXPECT_EQ(finished, times);
    for (std::size_t t = 0; t < times.size(); ++t)
      if (const PreparedTransfer& transfer = list.transfers[t]; transfer.crossing >= 0) {
        EXPECT_EQ(times[t], transfer.copies);
      }
  }
}

TEST_P(DrawnSteps, of_one_rank_are_those_of_all) {
  SCOPED_TRACE(drawn_.what);
  const std::vector<RankStep> all = steps_of(pipeline_);
  std::size_t next = 0;
  for (const RankStep& first : steps_of_stages(pipeline_)) {
    const RankStep alone = step_of(pipeline_, first.rank);
    EXPECT_EQ(to_text(alone, pipeline_), to_text(all[at(first.rank)], pipeline_));
    EXPECT_EQ(to_text(first, pipeline_), to_text(all[at(first.rank)], pipeline_));
    EXPECT_EQ(pipeline_.group_of(first.rank), static_cast<int>(next++));
  }
  for (const RankStep& step : all) {
    std::size_t prepared = 0;
    for (const PreparedTransfer& t : step.transfers) prepared += at(t.copies);
    EXPECT_LE(prepared, most_transfers(pipeline_)) << "rank " << step.rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Lower, DrawnSteps, ::testing::Range(0, 20));

// A list grows with nodes plus micro-batches: what is alike for all of them is there once.
TEST(Step, holds_a_section_once) {
  const auto program = [](int micro_batches) {
    Program p = testing::program_of(R"(
mesh [dp=2]
%x = input f32[2, 4] as [4, 4] [dp, -]
%w = param f32[4, 4] as [4, 4] [-, -]
%y = matmul %x, %w {m: dp} : f32[2, 4] as [4, 4] [dp, -]
%z = all_gather %y dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
output %z
)");
    p.micro_batches = micro_batches;
    return p;
  };
  const RankStep few = step_of(program(2), 0), many = step_of(program(1000), 0);
  EXPECT_EQ(few.sections.size(), many.sections.size());
  EXPECT_EQ(many.instructions.size() - few.instructions.size(), 2U * (1000 - 2));
  EXPECT_EQ(times_started(many), (std::vector<int>{1000}));
  EXPECT_EQ(traffic_of(many).bytes, 1000 * 2 * 4 * 4);
  EXPECT_EQ(unrolled(many).instructions.size(), 1000U * 5);
}

}  // namespace
}  // namespace shardwright
