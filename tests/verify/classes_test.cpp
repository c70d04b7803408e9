// Ranks in classes: what stands for a rank is what it does.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/verify/box_grid.h"
#include "shardwright/verify/meetings.h"
#include "shardwright/verify/verify.h"
#include "tests/support/changed_transfer.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

/// All that two ranks of a class share of a transfer. Who is in the group, whose addend of a mask is cleared, and how
/// much of an uneven split a rank holds, is their own: pieces are looked at for each size, arenas have the largest.
auto shared(const PreparedTransfer& t) {
  std::vector<std::tuple<ValueId, ValueId, DType, StepKind, bool>> parts;
  for (const Part& p : t.parts)
    parts.emplace_back(p.from, p.to, p.dtype, p.transfer->kind, p.transfer->reduces);
  return std::tuple(t.from_stage, t.to_stage, t.crossing, t.node, t.channel(), parts);
}

/// By transfer, the first one of the same group and channel.
std::vector<int> pattern(const RankStep& step) {
  std::map<std::pair<std::vector<int>, int>, int> first;
  std::vector<int> out;
  for (const PreparedTransfer& t : step.transfers)
    out.push_back(first.try_emplace({t.group(), t.channel()}, static_cast<int>(out.size())).first->second);
  return out;
}

class Classes : public ::testing::TestWithParam<int> {};

TEST_P(Classes, are_what_each_of_their_ranks_does) {
  constexpr int each = 10;
  int shared_lists = 0;
  for (int seed = GetParam() * each; seed < (GetParam() + 1) * each; ++seed) {
    const auto [what, pipeline] = testing::drawn_pipeline(static_cast<std::uint64_t>(seed));
    SCOPED_TRACE(what);
    const std::vector<RankStep> steps = unrolled_steps(pipeline);
    const std::vector<RankClass> classes = classes_of(pipeline);
    Meetings meetings(classes, pipeline);
    std::vector<int> ranks;
    for (const RankClass& c : classes) {
      ranks.insert(ranks.end(), c.ranks.begin(), c.ranks.end());
      EXPECT_EQ(c.step.rank, c.ranks.front());
      for (int r : c.ranks) {
        const RankStep& own = steps[at(r)];
        ASSERT_EQ(own.instructions, c.step.instructions) << "rank " << r;
        ASSERT_EQ(own.transfers.size(), c.step.transfers.size()) << "rank " << r;
        EXPECT_EQ(pattern(own), pattern(c.step)) << "rank " << r;
        for (std::size_t t = 0; t < own.transfers.size(); ++t) {
          EXPECT_EQ(shared(own.transfers[t]), shared(c.step.transfers[t])) << "rank " << r;
          const int group = meetings.groups.table(c.step.transfers[t])[at(r)];
          ASSERT_GE(group, 0) << "rank " << r;
          EXPECT_EQ(meetings.groups.ranks(group), own.transfers[t].group()) << "rank " << r;
        }
      }
      shared_lists += c.ranks.size() > 1;
    }
    std::ranges::sort(ranks);
    ASSERT_EQ(ranks.size(), steps.size());
    for (std::size_t r = 0; r < ranks.size(); ++r) EXPECT_EQ(at(ranks[r]), r);
    EXPECT_TRUE(violations(steps, pipeline).empty());
    EXPECT_TRUE(violations(classes, pipeline).empty());
  }
  EXPECT_GT(shared_lists, 0);
}

INSTANTIATE_TEST_SUITE_P(Verify, Classes, ::testing::Range(0, 8));

TEST(Violations, ranks_that_do_the_same_are_one_class) {
  const Pipeline pipeline = testing::program_of(R"(
mesh [a=8, b=32]
%x = input f32[8] as [64] [a]
%p = mask %x over b : f32[8] as [64] [a] sum(b)
%s = all_reduce.sum %p over b : f32[8] as [64] [a]
%g = all_gather %s dim 0 over a : f32[64] as [64] [-]
output %g
)");
  const std::vector<RankClass> classes = classes_of(pipeline);
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes.front().ranks.size(), 256u);
  EXPECT_TRUE(violations(classes, pipeline).empty());
}

/// 320 ranks of one class: sums over pairs, and gathers of uneven shards with more pieces than are looked at one by one.
Pipeline of_one_class() {
  return testing::program_of(R"(
mesh [a=2, b=160]
%x = input f32[3] as [479] [b]
%p = mask %x over a : f32[3] as [479] [b] sum(a)
%s = all_reduce.sum %p over a : f32[3] as [479] [b]
%t = all_reduce.sum %p over a : f32[3] as [479] [b]
%g = all_gather %s dim 0 over b : f32[479] as [479] [-]
%h = all_gather %t dim 0 over b : f32[479] as [479] [-]
output %g
output %h
)");
}

/// Removes a rank from its class; it has a list of its own.
std::vector<RankClass> split_out(const RankStep& own, std::vector<RankClass> classes) {
  for (RankClass& c : classes) std::erase(c.ranks, own.rank);
  classes.push_back({own, {own.rank}});
  return classes;
}

struct Damage {
  const char* name;
  void (*change)(RankStep& rank);
};

const auto transfer_of = [](RankStep& rank, std::size_t t) -> Transfer& {
  return testing::own_transfer(rank.transfers[t].parts.front());
};
const auto starts = [](RankStep& rank, int t) {
  return std::ranges::find(rank.instructions, Instruction{Act::start, 0, t, 0});
};

// Transfers of a rank: mask, two sums, two gathers.
const Damage damages[] = {
    {"bytes", [](RankStep& r) { r.transfers[3].parts.front().dtype = DType::f64; }},
    {"shape_of_a_sum", [](RankStep& r) { transfer_of(r, 1).from_shape = {4}; }},
    {"shape_of_a_gather", [](RankStep& r) { transfer_of(r, 3).from_shape = {4}; }},
    {"peer", [](RankStep& r) { transfer_of(r, 3).pieces[4].source = transfer_of(r, 3).pieces[5].source; }},
    {"place", [](RankStep& r) { transfer_of(r, 4).pieces[6].to_offset += 3; }},
    {"missing_piece", [](RankStep& r) { transfer_of(r, 3).pieces.pop_back(); }},
    {"group", [](RankStep& r) { transfer_of(r, 1).group.pop_back(); }},
    {"channel", [](RankStep& r) { transfer_of(r, 3).channel = 7; }},
    {"missing_finish", [](RankStep& r) { r.instructions.erase(starts(r, 3) + 1); }},
    {"missing_transfer", [](RankStep& r) { r.instructions.erase(starts(r, 1), starts(r, 1) + 2); }},
    {"order_in_a_group", [](RankStep& r) { std::swap_ranges(starts(r, 1), starts(r, 1) + 2, starts(r, 2)); }},
    {"order_of_reading", [](RankStep& r) { std::swap_ranges(starts(r, 2), starts(r, 2) + 2, starts(r, 4)); }},
};

class DamagedRanks : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedRanks, in_the_middle_of_a_class_are_found_as_without_it) {
  const Pipeline pipeline = of_one_class();
  const std::vector<RankClass> classes = classes_of(pipeline);
  ASSERT_EQ(classes.size(), 1u);
  std::vector<RankStep> steps = unrolled_steps(pipeline);
  ASSERT_EQ(steps[100].transfers.size(), 5u);
  EXPECT_TRUE(violations(classes, pipeline).empty());
  GetParam().change(steps[100]);
  const Violations found = violations(split_out(steps[100], classes), pipeline);
  const Violations plain = violations(steps, pipeline);
  ASSERT_FALSE(plain.empty());
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front().text, plain.front().text);
}

INSTANTIATE_TEST_SUITE_P(Verify, DamagedRanks, ::testing::ValuesIn(damages),
                         [](const auto& damaged) { return std::string(damaged.param.name); });

TEST(Boxes, that_are_the_cells_of_a_grid_fill_a_box) {
  const Box a{{0, 0}, {2, 3}}, b{{0, 3}, {2, 1}}, c{{2, 0}, {4, 3}}, d{{2, 3}, {4, 1}};
  EXPECT_EQ(filled_by({d, b, a, c, a}), std::optional(Box{{0, 0}, {6, 4}}));
  EXPECT_EQ(filled_by({c, d}), std::optional(Box{{2, 0}, {4, 4}}));
  EXPECT_EQ(filled_by({a, Box{{9, 9}, {0, 1}}}), std::optional(a));
  EXPECT_EQ(filled_by({a, b, c}), std::nullopt);                                 // a cell is missing
  EXPECT_EQ(filled_by({a, Box{{0, 4}, {2, 1}}}), std::nullopt);                  // a gap
  EXPECT_EQ(filled_by({a, Box{{0, 2}, {2, 3}}}), std::nullopt);                  // they overlap
  EXPECT_EQ(filled_by({a, Box{{0, 0}, {2, 4}}}), std::nullopt);                  // one lies in the other
  EXPECT_EQ(filled_by({Box{{0, 0}, {0, 3}}}), std::nullopt);                     // nothing
  EXPECT_EQ(filled_by({Box{{}, {}}, Box{{}, {}}}), std::optional(Box{{}, {}}));  // a scalar that many hold
}

}  // namespace
}  // namespace shardwright
