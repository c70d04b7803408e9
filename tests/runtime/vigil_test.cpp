#include "shardwright/runtime/communicator/vigil.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <thread>

namespace shardwright {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto timeout = 80ms;

/// Rank 0 of three that are seen and one on another host, and what the others do while it waits.
class Waiting : public ::testing::Test {
 protected:
  struct End {
    std::string how;                // empty: the patience of the test was over first
    std::chrono::nanoseconds took;  // until then
  };

  /// Waits for `missing`; before each look `meanwhile` happens.
  End wait_for(const std::vector<int>& missing, std::chrono::nanoseconds patience,
               const std::function<void()>& meanwhile) {
    const auto start = Clock::now();
    for (;;) {
      std::this_thread::sleep_for(vigil_.pause());
      meanwhile();
      vigil_.missing() = missing;
      const auto how = vigil_.look();
      const auto took = Clock::now() - start;
      if (how) return {*how, took};
      if (took > patience) return {"", took};
    }
  }
  void beat(int rank) { ++seen_[static_cast<std::size_t>(rank)].beat; }

  std::deque<Presence> seen_{3};
  Vigil vigil_{{&seen_[0], &seen_[1], &seen_[2], nullptr}, 0, timeout, Vigil::In::process};
};

TEST_F(Waiting, a_rank_without_a_sign_is_given_up) {
  const End end = wait_for({1, 2}, 1s, [&] { beat(2); });
  EXPECT_TRUE(end.how.starts_with("waited 0.0")) << end.how;
  EXPECT_TRUE(end.how.ends_with(" s for rank 1, which gives no sign of life")) << end.how;
  EXPECT_GE(end.took, timeout);
}

TEST_F(Waiting, all_that_are_silent_are_named) {
  EXPECT_TRUE(wait_for({1, 2}, 1s, [] {}).how.ends_with("for ranks 1, 2, which give no sign of life"));
}

TEST_F(Waiting, one_that_gives_signs_is_waited_for_until_it_stops) {
  EXPECT_EQ(wait_for({1}, 4 * timeout, [&] { beat(1); }).how, "");
  EXPECT_TRUE(wait_for({1}, 1s, [] {}).how.ends_with("rank 1, which gives no sign of life"));
}

TEST_F(Waiting, one_that_does_nothing_else_is_given_up_after_ten_times_as_long) {
  int looks = 0;
  const End end = wait_for({1}, 3s, [&] {
    beat(1);
    if (++looks == 20) ++seen_[1].acts;  // then its time begins anew
  });
  EXPECT_TRUE(end.how.ends_with("rank 1, which is still busy")) << end.how;
  EXPECT_GE(end.took, 10 * timeout + 20 * vigil_.pause());
  EXPECT_EQ(wait_for({1}, 0s, [&] { beat(1); }).how.empty(), false);
}

TEST_F(Waiting, who_is_busy_may_be_waited_for_for_ever) {
  for (int looks = 0; looks < 12 * 16; ++looks) {
    std::this_thread::sleep_for(vigil_.pause());
    beat(1);
    vigil_.missing() = {1, 3};
    EXPECT_EQ(vigil_.look(Vigil::Busy::for_ever), std::nullopt);
  }
}

TEST_F(Waiting, ranks_that_wait_for_each_other_are_given_up) {
  seen_[1].waits = true;
  const End end = wait_for({1}, 1s, [&] { beat(1); });
  EXPECT_TRUE(end.how.ends_with("rank 1, which waits, too")) << end.how;
  EXPECT_GE(end.took, timeout * 3 / 2);
}

TEST_F(Waiting, one_that_waits_for_who_works_is_waited_for) {
  seen_[1].waits = true;
  EXPECT_EQ(wait_for({1}, 4 * timeout,
                     [&] {
                       beat(1);
                       ++seen_[1].heard;
                     })
                .how,
            "");
}

/// So a rank that waits for this one knows that it does so for somebody who works.
TEST_F(Waiting, what_is_heard_is_passed_on) {
  seen_[1].beat = seen_[0].heard + (1LL << 62);  // later than now
  EXPECT_FALSE(seen_[0].waits);
  wait_for({1}, 0s, [&] { beat(1); });
  EXPECT_TRUE(seen_[0].waits);
  EXPECT_EQ(seen_[0].heard, seen_[1].beat);
  const std::uint64_t acts = seen_[0].acts;
  vigil_.end();
  EXPECT_FALSE(seen_[0].waits);
  EXPECT_GT(seen_[0].acts, acts);
}

TEST_F(Waiting, who_is_within_a_call_counts_as_busy) {
  Vigil within({&seen_[0], &seen_[1]}, 0, timeout, Vigil::In::call);
  within.missing() = {1};
  EXPECT_EQ(within.look(), std::nullopt);
  EXPECT_FALSE(seen_[0].waits);
}

TEST_F(Waiting, another_host_has_ten_times_as_long) {
  const End end = wait_for({3}, 3s, [] {});
  EXPECT_TRUE(end.how.ends_with("rank 3, which is on another host")) << end.how;
  EXPECT_GE(end.took, 10 * timeout);
}

/// As behind Ctrl-Z: its own clock has gone on, but it could not look.
TEST_F(Waiting, time_in_which_the_waiting_rank_was_stopped_does_not_count) {
  wait_for({1}, 0s, [] {});
  std::this_thread::sleep_for(4 * timeout);
  EXPECT_EQ(wait_for({1}, 0s, [] {}).how, "");
}

TEST_F(Waiting, each_waiting_begins_anew) {
  EXPECT_EQ(wait_for({1}, timeout / 2, [] {}).how, "");
  vigil_.end();
  EXPECT_EQ(wait_for({1}, timeout / 2, [] {}).how, "");
}

}  // namespace
}  // namespace shardwright
