#include "shardwright/plan/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

std::string text_of(const Pipelining& p, int stage) {
  std::string out;
  for (const Task& t : tasks_of(p, stage))
    out +=
        fmt::format("{}{}{}", out.empty() ? "" : " ", t.phase == Phase::forward ? "F" : "B", t.micro_batch);
  return out;
}

TEST(Schedule, gpipe_runs_all_forwards_first) {
  const Pipelining p{Schedule::gpipe(), 2, 3};
  EXPECT_EQ(text_of(p, 0), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(text_of(p, 1), "F0 F1 F2 B0 B1 B2");
}

TEST(Schedule, one_forward_one_backward_is_that_of_the_literature) {
  const Pipelining p{Schedule::one_forward_one_backward(), 3, 4};
  EXPECT_EQ(text_of(p, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text_of(p, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text_of(p, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Schedule, one_stage_takes_each_micro_batch_forward_and_backward) {
  for (const Schedule& schedule : {Schedule::gpipe(), Schedule::one_forward_one_backward()})
    EXPECT_EQ(text_of({schedule, 1, 2}, 0), "F0 B0 F1 B1");
}

/// Whatever the numbers: every task once, phases in the order of micro-batches, no more alive than slots.
TEST(Schedule, is_complete_and_keeps_to_its_slots) {
  for (const Schedule& schedule : {Schedule::gpipe(), Schedule::one_forward_one_backward()})
    for (int stages = 1; stages <= 6; ++stages)
      for (int count = 1; count <= 9; ++count)
        for (int s = 0; s < stages; ++s) {
          const Pipelining p{schedule, stages, count};
          SCOPED_TRACE(text_of(p, s));
          int forwards = 0, backwards = 0, alive = 0, most = 0;
          for (const Task& t : tasks_of(p, s)) {
            int& done = t.phase == Phase::forward ? forwards : backwards;
            EXPECT_EQ(t.micro_batch, done++);
            most = std::max(most, alive += t.phase == Phase::forward ? 1 : -1);
            EXPECT_GE(forwards, backwards);
          }
          EXPECT_EQ(forwards, count);
          EXPECT_EQ(backwards, count);
          EXPECT_EQ(most, micro_batches_of(p, s).slots());
          if (schedule == Schedule::one_forward_one_backward()) {
            EXPECT_LE(most, stages - s);
          }
        }
}

/// With the chunk in front: `1F0`.
std::string chunks_text(const Pipelining& p, int stage) {
  std::string out;
  for (const Task& t : tasks_of(p, stage))
    out += fmt::format("{}{}{}{}", out.empty() ? "" : " ", t.chunk, t.phase == Phase::forward ? "F" : "B",
                       t.micro_batch);
  return out;
}

TEST(Schedule, interleaved_is_that_of_the_literature) {
  const Pipelining p{Schedule::interleaved(2), 2, 4};
  EXPECT_EQ(chunks_text(p, 0), "0F0 0F1 1F0 1F1 0F2 1B0 0F3 1B1 1F2 0B0 1F3 0B1 1B2 1B3 0B2 0B3");
  EXPECT_EQ(chunks_text(p, 1), "0F0 0F1 1F0 1B0 1F1 1B1 0F2 0B0 0F3 0B1 1F2 1B2 1F3 1B3 0B2 0B3");
}

TEST(Schedule, interleaved_takes_what_stages_do_not_divide_with_the_first) {
  const Pipelining p{Schedule::interleaved(2), 2, 3};
  EXPECT_EQ(chunks_text(p, 1), "0F0 0F1 0F2 1F0 1B0 1F1 1B1 1F2 1B2 0B0 0B1 0B2");
}

/// Whatever the numbers: every task of every chunk once, each phase of a chunk in the order of micro-batches.
TEST(Schedule, interleaved_is_complete_and_keeps_to_its_slots) {
  for (int stages = 2; stages <= 5; ++stages)
    for (int chunks = 1; chunks <= 4; ++chunks)
      for (int count = 1; count <= 11; ++count)
        for (int part = 0; part < stages * chunks; ++part) {
          const Pipelining p{Schedule::interleaved(chunks), stages, count};
          SCOPED_TRACE(chunks_text(p, part % stages));
          int forwards = 0, backwards = 0, most = 0;
          for (const Task& t : tasks_of(p, part % stages)) {
            if (t.chunk != part / stages) continue;
            EXPECT_EQ(t.micro_batch, t.phase == Phase::forward ? forwards++ : backwards++);
            EXPECT_GE(forwards, backwards);
            most = std::max(most, forwards - backwards);
          }
          EXPECT_EQ(forwards, count);
          EXPECT_EQ(backwards, count);
          EXPECT_EQ(most, micro_batches_of(p, part).slots());
        }
}

TEST(Schedule, has_a_name) {
  EXPECT_EQ(schedule_called("gpipe"), Schedule::gpipe());
  EXPECT_EQ(schedule_called(name_of(Schedule::one_forward_one_backward())),
            Schedule::one_forward_one_backward());
  EXPECT_THROW(schedule_called("zigzag"), Error);
  EXPECT_EQ(schedule_called("interleaved:3"), (Schedule::interleaved(3)));
  EXPECT_EQ(name_of(schedule_called("interleaved:3")), "interleaved:3");
  for (const char* wrong : {"interleaved", "interleaved:", "interleaved:0", "interleaved:-2", "interleaved:x",
                            "interleaved:99999999999"})
    EXPECT_THROW(schedule_called(wrong), Error) << wrong;
}

}  // namespace
}  // namespace shardwright
