// Whose turn it is: known answers of small lists, and what holds of all.

#include "shardwright/passes/part_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace shardwright {
namespace {

/// `a0 a1 b0`: items 0 and 1 of part 0, item 0 of part 1.
std::string text_of(const std::vector<Turn>& turns) {
  std::string out;
  for (const Turn& t : turns)
    out +=
        (out.empty() ? "" : " ") + std::string(1, static_cast<char>('a' + t.part)) + std::to_string(t.item);
  return out;
}

PartItem work(double seconds) { return {.seconds = seconds}; }
PartItem transfer(double seconds, int operand) { return {.transfer_seconds = seconds, .operand = operand}; }

TEST(PartTurns, one_computes_while_the_other_waits) {
  const std::vector<PartItem> items{work(1), transfer(1, 0), work(1), transfer(1, 2), work(1)};
  EXPECT_EQ(text_of(part_turns(items, 2)), "a0 b0 a1 a2 b1 b2 a3 a4 b3 b4");
  EXPECT_EQ(text_of(part_turns(items, 1)), "a0 a1 a2 a3 a4");
}

TEST(PartTurns, without_transfers_come_one_after_the_other) {
  const std::vector<PartItem> items{work(1), work(2)};
  EXPECT_EQ(text_of(part_turns(items, 3)), "a0 a1 b0 b1 c0 c1");
}

/// Between two transfers is so little to compute that the other part stops for it in the middle of its own work.
TEST(PartTurns, what_starts_a_transfer_sooner_goes_first) {
  const std::vector<PartItem> items{work(2), transfer(1, 0), work(0.1), transfer(1, 2), work(2), work(2)};
  EXPECT_EQ(text_of(part_turns(items, 2)), "a0 b0 a1 a2 b1 b2 a3 a4 a5 b3 b4 b5");
  const std::vector<PartItem> in_pieces{work(2), work(2), transfer(1, 1), work(0.1), transfer(1, 3), work(2)};
  EXPECT_EQ(text_of(part_turns(in_pieces, 2)), "a0 a1 b0 a2 a3 b1 a4 a5 b2 b3 b4 b5");
}

/// Parts take all items, in their order, and none before the part before it has.
TEST(PartTurns, keep_their_order_whatever_there_is) {
  std::mt19937 dice(7);
  const auto below = [&](int n) { return static_cast<int>(dice() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<PartItem> items(static_cast<std::size_t>(1 + below(20)));
    for (int i = 0; i < std::ssize(items); ++i)
      if (PartItem& item = items[static_cast<std::size_t>(i)]; below(3) == 0)
        item = transfer(below(4), below(i + 1) - 1);
      else
        item = work(below(4));
    const int parts = 1 + below(4);
    std::vector<int> next(static_cast<std::size_t>(parts), 0);
    const std::vector<Turn> turns = part_turns(items, parts);
    for (const Turn& turn : turns) {
      const auto part = static_cast<std::size_t>(turn.part);
      EXPECT_EQ(turn.item, next[part]++);
      if (part > 0) {
        EXPECT_LT(turn.item, next[part - 1]);
      }
    }
    EXPECT_TRUE(std::ranges::all_of(next, [&](int n) { return n == std::ssize(items); }));
  }
}

}  // namespace
}  // namespace shardwright
