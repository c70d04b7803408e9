// What the line on a terminal says; that it stands there and goes away, tests/end_to_end/terminal_test.py sees.
#include "shardwright/cli/progress_line.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t wide = 1000;
const auto start = WorkPart::Clock::now();

WorkPart part(std::string what, std::string note = "", std::int64_t done = 0, std::int64_t all = 0,
              std::int64_t first = 0) {
  return {.what = std::move(what),
          .note = std::move(note),
          .done = done,
          .all = all,
          .first = first,
          .begin = start};
}

TEST(ProgressLine, says_parts_from_outside_to_inside) {
  EXPECT_EQ(progress_text({}, start, wide), "");
  EXPECT_EQ(progress_text({part("verify a.json")}, start + 3s, wide), "verify a.json, 3 s");
  EXPECT_EQ(progress_text({part("plan gpt"), part("search auto", "best step 2 s"), part("search recursive")},
                          start + 12s, wide),
            "plan gpt, 12 s: search auto, best step 2 s; search recursive");
}

TEST(ProgressLine, what_is_left_takes_as_long_as_what_is_done) {
  const auto line = [](const WorkPart& p, WorkPart::Clock::duration gone) {
    return progress_text({part("train gpt"), p}, start + gone, wide);
  };
  EXPECT_EQ(line(part("step", "loss 2.5", 10, 40), 10s),
            "train gpt, 10 s, about 30 s left: step 10 of 40, loss 2.5");
  EXPECT_EQ(line(part("step", "", 10, 610), 10s), "train gpt, 10 s, about 10 min left: step 10 of 610");
  EXPECT_EQ(line(part("step", "", 10, 36010), 10s),
            "train gpt, 10 s, about 10 h 0 min left: step 10 of 36010");
  // Of those that were done before, nobody knows how long they took.
  EXPECT_EQ(line(part("step", "", 110, 120, 100), 10s), "train gpt, 10 s, about 10 s left: step 110 of 120");
  EXPECT_EQ(line(part("step", "", 100, 120, 100), 10s), "train gpt, 10 s: step 100 of 120");
  EXPECT_EQ(line(part("step", "", 120, 120), 10s), "train gpt, 10 s: step 120 of 120");
}

TEST(ProgressLine, is_one_line_of_so_many_columns) {
  EXPECT_EQ(progress_text({part("show a\nb\x1b[2J")}, start, wide), "show a?b?[2J, 0 s");
  EXPECT_EQ(progress_text({part("verify plan.json")}, start, 6), "verify");
  EXPECT_EQ(progress_text({part("show \u00fc\u00fc\u00fc")}, start, 7), "show \u00fc\u00fc");
}

TEST(Doing, is_a_part_as_long_as_it_lives) {
  Progress progress;
  Doing outer(&progress, "devices", 4);
  outer.tell(1, [] { return std::string("8"); });
  {
    Doing inner(&progress, "search", 0);
    ASSERT_EQ(progress.parts().size(), 2U);
    EXPECT_EQ(progress.parts()[1].what, "search");
    outer.tell(2);
    EXPECT_EQ(progress.parts()[0].done, 2);
  }
  ASSERT_EQ(progress.parts().size(), 1U);
  EXPECT_EQ(progress.parts()[0].note, "");
}

TEST(Doing, makes_no_text_where_nobody_watches) {
  Doing doing(nullptr, "search");
  doing.tell(1, []() -> std::string { throw 1; });
}

}  // namespace
}  // namespace shardwright
