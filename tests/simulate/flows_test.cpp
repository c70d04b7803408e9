#include "shardwright/simulate/flows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

namespace shardwright {
namespace {

/// When each of the flows ends, by number of its start; pace changes beside them.
class Ends {
 public:
  explicit Ends(int groups, int levels = 2) : flows_(groups, levels) {}

  void start(double at, std::vector<FlowPart> parts, FlowWay way) {
    run_until(at);
    parts_.push_back(std::move(parts));
    number_[flows_.start(parts_.back(), way, at)] = started_++;
  }
  void pace(double at, int group, double pace) {
    run_until(at);
    flows_.set_pace(group, pace, at);
  }
  std::vector<double> all() {
    run_until(1e9);
    std::vector<double> out;
    for (const auto& [number, end] : ends_) out.push_back(end);
    return out;
  }

 private:
  void run_until(double time) {
    while (flows_.next() <= time) {
      const double now = flows_.next();
      const int flow = flows_.step();
      if (flow >= 0) ends_[number_.at(flow)] = now;
    }
  }

  Flows flows_;
  std::deque<std::vector<FlowPart>> parts_;
  int started_ = 0;
  std::map<int, int> number_;
  std::map<int, double> ends_;
};

using Seconds = std::vector<double>;
const FlowWay here{0, 0, false}, paced{0, 0, true};

TEST(Flows, on_one_link_take_twice_as_long) {
  Ends ends(1);
  ends.start(0, {{0, 2}}, here);
  ends.start(0, {{0, 2}}, here);
  EXPECT_EQ(ends.all(), (Seconds{4, 4}));
}

TEST(Flows, share_only_while_both_are_there) {
  Ends ends(1);
  ends.start(0, {{0, 3}}, here);
  ends.start(1, {{0, 1}}, here);  // both at half speed from 1 to 3
  EXPECT_EQ(ends.all(), (Seconds{4, 3}));
}

TEST(Flows, on_different_levels_do_not_meet) {
  Ends ends(1);
  ends.start(0, {{0, 2}, {1, 1}}, here);
  ends.start(0, {{1, 2}, {-1, 5}}, here);
  EXPECT_EQ(ends.all(), (Seconds{3, 7}));
}

TEST(Flows, leave_and_enter_devices_by_different_ways) {
  Ends both(2);
  both.start(0, {{0, 2}}, {0, 1, false});
  both.start(0, {{0, 2}}, {1, 0, false});
  EXPECT_EQ(both.all(), (Seconds{2, 2}));
  Ends into_one(3);
  into_one.start(0, {{0, 2}}, {0, 1, false});
  into_one.start(0, {{0, 2}}, {2, 1, false});
  EXPECT_EQ(into_one.all(), (Seconds{4, 4}));
  Ends beside_a_collective(2);
  beside_a_collective.start(0, {{0, 2}}, {0, 1, false});
  beside_a_collective.start(0, {{0, 2}}, {1, 1, true});
  EXPECT_EQ(beside_a_collective.all(), (Seconds{4, 4}));
}

TEST(Flows, go_on_at_the_pace_of_their_group) {
  Ends ends(2);
  ends.pace(0, 0, 0.5);
  ends.start(0, {{-1, 1}, {0, 2}}, paced);  // 1 s of it by 2, standing still until 7, whole from then on
  ends.pace(3, 0, 0);
  ends.pace(7, 0, 1);
  EXPECT_EQ(ends.all(), (Seconds{8.5}));
}

TEST(Flows, that_stand_still_leave_the_link_to_others) {
  Ends ends(1);
  ends.pace(0, 0, 0);
  ends.start(0, {{0, 1}}, paced);
  ends.start(0, {{0, 2}}, here);
  ends.pace(1, 0, 1);  // both at half speed from here on
  EXPECT_EQ(ends.all(), (Seconds{3, 3}));
}

TEST(Flows, of_no_length_end_at_once) {
  Ends ends(1);
  ends.start(2, {}, here);
  ends.start(2, {{0, 0}, {-1, 0}}, paced);
  EXPECT_EQ(ends.all(), (Seconds{2, 2}));
}

/// A link never rests while something waits for it: whatever the order, it is done when all the work is.
TEST(Flows, lose_no_time) {
  std::mt19937 random(1);
  const auto draw = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  for (int round = 0; round < 200; ++round) {
    Ends ends(1);
    double at = 0, done = 0;  // when the link is done with what has come so far
    for (int i = 0; i < 12; ++i) {
      at += draw(4);
      const int seconds = 1 + draw(5);
      done = std::max(done, at) + seconds;
      ends.start(at, {{0, static_cast<double>(seconds)}}, here);
    }
    const Seconds all = ends.all();
    EXPECT_NEAR(*std::max_element(all.begin(), all.end()), done, 1e-9);
  }
}

}  // namespace
}  // namespace shardwright
