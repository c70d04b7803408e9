#include "shardwright/lower/program_text.h"

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"
#include "shardwright/lower/step.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

void expect_same(const Instruction& a, const Instruction& b, const std::string& what) {
  EXPECT_EQ(a.act, b.act) << what;
  EXPECT_EQ(a.what, b.what) << what;
  EXPECT_EQ(a.micro_batch, b.micro_batch) << what;
  EXPECT_EQ(a.stage, b.stage) << what;
}

class ProgramText : public ::testing::TestWithParam<int> {};

// What a pipeline's text says is all that its steps follow from.
TEST_P(ProgramText, of_pipelines_and_their_steps_comes_back) {
  const testing::DrawnPipeline drawn = testing::drawn_pipeline(static_cast<std::uint64_t>(GetParam()));
  SCOPED_TRACE(drawn.what);
  const Pipeline& pipeline = drawn.pipeline;
  const std::string text = to_text(pipeline);
  const Pipeline again = parse_pipeline(text);
  EXPECT_EQ(to_text(again), text);
  ASSERT_EQ(again.stage_count(), pipeline.stage_count());
  EXPECT_EQ(again.pipelining, pipeline.pipelining);
  EXPECT_EQ(again.rank_count(), pipeline.rank_count());
  ASSERT_EQ(again.crossings.size(), pipeline.crossings.size());
  for (std::size_t i = 0; i < pipeline.crossings.size(); ++i) {
    EXPECT_EQ(again.crossings[i].time, pipeline.crossings[i].time);
    EXPECT_EQ(again.crossings[i].channel, pipeline.crossings[i].channel);
  }
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    EXPECT_EQ(again.stage(s).lanes, pipeline.stage(s).lanes);
    EXPECT_EQ(again.stage(s).keeps_sends, pipeline.stage(s).keeps_sends);
    for (std::size_t n = 0; n < pipeline.stage(s).starts.size(); ++n)
      EXPECT_EQ(again.stage(s).starts.empty() ? NodeId{static_cast<int>(n)} : again.stage(s).starts[n],
                pipeline.stage(s).starts[n]);
  }
  const std::vector<RankStep> steps_again = steps_of(again);
  for (const RankStep& step : steps_of(pipeline)) {
    const std::string step_text = to_text(step, pipeline);
    EXPECT_EQ(to_text(steps_again[static_cast<std::size_t>(step.rank)], again), step_text);
    const RankStep read = parse_step(step_text, pipeline);
    EXPECT_EQ(to_text(read, pipeline), step_text);
    ASSERT_EQ(read.instructions.size(), step.instructions.size());
    for (std::size_t i = 0; i < step.instructions.size(); ++i)
      expect_same(read.instructions[i], step.instructions[i], to_text(step, step.instructions[i], pipeline));
  }
}

INSTANTIATE_TEST_SUITE_P(Drawn, ProgramText, ::testing::Range(0, 60));

const char* const two_stages = R"(pipeline 2 stages, 2 micro-batches, 1f1b
stage 0
program 2 micro-batches, 2 slots
mesh []
%x = input f32[2, 4] as [2, 4] [-, -]
%h = relu %x : f32[2, 4] as [2, 4] [-, -]
send %h
stage 1
program 2 micro-batches
mesh []
%h = receive f32[2, 4] as [2, 4] [-, -]
%y = relu %h : f32[2, 4] as [2, 4] [-, -]
output %y
crossing %h of stage 0 to %h of stage 1
hand out %y of stage 1
)";

std::string changed(std::string text, const std::string& what, const std::string& to) {
  const std::size_t begin = text.find(what);
  EXPECT_NE(begin, text.npos) << what;
  return text.replace(begin, what.size(), to);
}

TEST(ProgramText, names_the_line_and_what_is_wrong) {
  ASSERT_EQ(to_text(parse_pipeline(two_stages)), two_stages);
  struct Case {
    std::string what, to, message;
  };
  const std::vector<Case> cases = {
      {"relu %x", "relo %x", "line 6: operator 'relo' does not exist (did you mean relu?)"},
      {"2 stages", "3 stages", "2 programs stand here but the pipeline has 3"},
      {"stage 1\n", "stage 2\n", "line 8: stage 2 stands where stage 1 should"},
      {"program 2 micro-batches\n", "", "line 9: 'mesh []' stands above 'program', which begins a program"},
      {"2 micro-batches, 1f1b", "4 micro-batches, 1f1b",
       "line 3: the program is of 2 micro-batches but the pipeline of 4 micro-batches"},
      {"pipeline 2 stages, 2 micro-batches, 1f1b\nstage 0\n", "",
       "line 6: 'stage' stands in a pipeline; write 'pipeline' in the first line"},
      {"2 slots", "3 slots", "line 3: 3 slots: should be from 1 to 2"},
      {"1f1b", "2f2b",
       "line 1: schedule '2f2b' does not exist; there are gpipe, 1f1b, interleaved:V, v-half, v-min, "
       "dualpipe-v, zb-v, "
       "zero-bubble[:MEMORY], FILE.csv"},
      {"%h of stage 0", "%x of stage 0", "line 14: %x is not sent"},
      {"%h of stage 0", "%q of stage 0", "line 14: 'q' is not in the graph (did you mean h or x?)"},
      {"to %h of stage 1", "to %y of stage 1", "line 14: %y of stage 1 is not received"},
      {"to %h of stage 1", "to %h of stage 7", "line 14: there is no stage 7 but 0 to 1"},
      {"hand out %y", "hand out %h", "line 15: %h is not an output"},
      {"output %y", "output %y\narena 64\nbuffer cache at 0 of 64: %y",
       "line 15: a buffer for 'cache' does not exist; there are parameter, state, accumulator, gradient, "
       "activation, "
       "communication, workspace"},
      {"output %y", "output %y\narena 64\nbuffer workspace at 0 of 64: %y, %q",
       "line 15: 'q' is not in the graph (did you mean h or y?)"},
      {"output %y", "output %y\narena 64\npassing 128",
       "128 bytes of an arena of 64 pass: should be at most all"},
      {"output %y", "output %y\narena -5", "line 14: an arena of -5 bytes: should be from 0 on"},
      {"send %h",
       "send %h\narena 9223372036854775807\nbuffer workspace at 0 of 9000000000000000000 in 2 slots: %h",
       "line 9: it ends behind the arena of 9223372036854775807 bytes"},
      {"output %y", "output %y\narena 64\nbuffer workspace at 32 of 64: %y",
       "line 15: it ends behind the arena of 64 bytes"},
      {"output %y", "output %y\narena 64\nbuffer workspace at 0 of 64: %y, %h, %y",
       "line 15: %y lies in two buffers"},
      {"send %h\n", "send %h\nearly %x before %h\n", "line 8: early %x: %h is behind it"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(error_of([&] { parse_pipeline(changed(two_stages, c.what, c.to)); }), c.message) << c.to;
  EXPECT_EQ(error_of([] { parse_graph("program 1 micro-batch\n%x = input f32[2]"); }),
            "line 1: this is a program, which is lowered already; give a network or a planned graph");
}

TEST(StepText, names_the_line_and_what_is_wrong) {
  const Pipeline pipeline = testing::drawn_pipeline(3).pipeline;
  const auto message = [&](std::string_view text) { return error_of([&] { parse_step(text, pipeline); }); };
  EXPECT_EQ(message(""), "the text holds no step; its first line should be 'rank 0'");
  EXPECT_EQ(message("rank 99"),
            fmt::format("line 1: there is no rank 99 but 0 to {}", pipeline.rank_count() - 1));
  EXPECT_EQ(message("rank 0\n  jump"), "line 2: rank 0 has nothing that is called 'jump'");
  EXPECT_EQ(message("rank 0\nsideward"), "line 2: 'sideward' is no section of rank 0");
  EXPECT_EQ(message("rank 0\n  fill inputs, micro-batch 70000"),
            fmt::format("line 2: there is no micro-batch '70000' but 0 to {}", pipeline.micro_batches() - 1));
}

}  // namespace
}  // namespace shardwright
