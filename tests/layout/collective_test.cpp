#include "shardwright/layout/collective.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardwright {
namespace {

using enum StepKind;
using Group = std::vector<GroupLink>;

/// Only bytes count.
LinkCost link(double seconds_per_byte) { return {.start_seconds = 0, .seconds_per_byte = seconds_per_byte}; }

double bandwidth_seconds(StepKind kind, double bytes, const Group& group) {
  return collective_seconds(kind, bytes, group);
}

TEST(CollectiveSeconds, of_large_messages_are_those_of_the_bytes) {
  const Group four{{4, link(1)}};
  EXPECT_DOUBLE_EQ(bandwidth_seconds(all_gather, 8, four), 6);
  EXPECT_DOUBLE_EQ(bandwidth_seconds(reduce_scatter, 8, four), 6);
  EXPECT_DOUBLE_EQ(bandwidth_seconds(all_reduce, 8, four), 12);
  EXPECT_DOUBLE_EQ(bandwidth_seconds(all_to_all, 8, four), 6);
  EXPECT_DOUBLE_EQ(bandwidth_seconds(permute, 8, four), 8);
  EXPECT_DOUBLE_EQ(bandwidth_seconds(halo, 8, four), 8);
  EXPECT_DOUBLE_EQ(bandwidth_seconds(all_reduce, 8, {{1, link(1)}}), 0);
}

TEST(CollectiveSeconds, of_small_messages_grow_with_the_logarithm_of_the_ranks) {
  const LinkCost slow_start{.start_seconds = 1, .seconds_per_byte = 1e-9, .latency_seconds = 1};
  for (const auto& [ranks, rounds] : {std::pair{2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {1024, 10}}) {
    SCOPED_TRACE(ranks);
    const Group group{{ranks, slow_start}};
    // One second to start; an all_reduce of little data sends all of it in each round.
    EXPECT_NEAR(collective_seconds(all_gather, 1, group), 1 + rounds, 1e-6);
    EXPECT_NEAR(collective_seconds(all_reduce, 1, group), 1 + rounds, 1e-6);
    EXPECT_NEAR(collective_seconds(all_to_all, 1, group), 1 + rounds, 1e-6);
    EXPECT_NEAR(collective_seconds(permute, 1, group), 2, 1e-6);
  }
}

/// Between nodes a ring ends when a part has gone through all ranks of the group: whatever is inside of them.
TEST(CollectiveSeconds, of_a_ring_grow_with_its_members) {
  LinkCost outer = link(0);
  outer.member_seconds = 2, outer.level = 1;
  for (const int nodes : {2, 48}) {
    const Group group{{nodes, outer}, {8, link(0)}};
    const double ring = 2.0 * (8 * nodes - 1);
    EXPECT_DOUBLE_EQ(collective_seconds(all_gather, 100, group), ring);
    EXPECT_DOUBLE_EQ(collective_seconds(reduce_scatter, 100, group), ring);
    EXPECT_DOUBLE_EQ(collective_seconds(all_reduce, 0, group), 0);  // a tree
    EXPECT_DOUBLE_EQ(collective_seconds(permute, 100, group), 0);
  }
  // A large all_reduce is two rings behind one another, which overlap: a tree would send all of it in every round.
  outer.seconds_per_byte = 1;
  const Group large{{4, outer}};
  EXPECT_DOUBLE_EQ(collective_seconds(all_reduce, 100, large), 2 * 3 + 2 * 75);
}

TEST(CollectiveSeconds, of_an_all_reduce_are_those_of_the_better_algorithm) {
  const Group group{{8, {.start_seconds = 1, .seconds_per_byte = 1, .latency_seconds = 1}}};
  EXPECT_DOUBLE_EQ(collective_seconds(all_reduce, 1, group), 1 + 3 * (1 + 1));      // three rounds of all
  EXPECT_DOUBLE_EQ(collective_seconds(all_reduce, 800, group), 1 + 2 * (3 + 700));  // scatter, gather
}

TEST(CollectiveSeconds, over_a_slow_outer_link_moves_a_part_only) {
  const LinkCost slow = link(1), fast = link(0);
  const Group two_nodes_of_eight{{2, slow}, {8, fast}};
  EXPECT_DOUBLE_EQ(bandwidth_seconds(all_reduce, 16, two_nodes_of_eight), 2);  // 2 (n-1)/n of an eighth of 16
  EXPECT_DOUBLE_EQ(bandwidth_seconds(reduce_scatter, 16, two_nodes_of_eight), 1);
  EXPECT_DOUBLE_EQ(bandwidth_seconds(all_gather, 16, two_nodes_of_eight), 1);
  EXPECT_DOUBLE_EQ(bandwidth_seconds(all_to_all, 16, two_nodes_of_eight), 8);  // half of all leaves the node
  EXPECT_DOUBLE_EQ(bandwidth_seconds(permute, 16, two_nodes_of_eight), 16);
  // The inner link sees all of it, but for an all_to_all what stays in the node.
  const Group inner{{2, fast}, {8, slow}};
  EXPECT_DOUBLE_EQ(bandwidth_seconds(all_reduce, 16, inner), 28);
  EXPECT_DOUBLE_EQ(bandwidth_seconds(all_to_all, 16, inner), 7);
}

TEST(CollectiveSeconds, do_not_depend_on_how_a_level_is_cut_into_axes) {
  const LinkCost near{.start_seconds = 1e-5, .seconds_per_byte = 1e-9, .latency_seconds = 1e-6},
      far{.start_seconds = 2e-5, .seconds_per_byte = 1e-8, .latency_seconds = 1e-5};
  for (StepKind kind : {all_gather, reduce_scatter, all_reduce, all_to_all, permute})
    for (double bytes : {1.0, 1e3, 1e6})
      EXPECT_DOUBLE_EQ(collective_seconds(kind, bytes, Group{{2, far}, {2, near}, {4, near}}),
                       collective_seconds(kind, bytes, Group{{2, far}, {8, near}}));
}

TEST(CollectiveSeconds, depend_on_the_wires_that_a_group_has) {
  const auto seconds = [](Wiring wiring, int ranks, StepKind kind = permute) {
    LinkCost l = link(1);
    l.wiring = wiring;
    l.devices = 8;
    return bandwidth_seconds(kind, 1, {{ranks, l}});
  };
  EXPECT_DOUBLE_EQ(seconds(Wiring::switched, 2), 1);
  EXPECT_DOUBLE_EQ(seconds(Wiring::mesh, 2), 7);
  EXPECT_DOUBLE_EQ(seconds(Wiring::mesh, 8), 1);
  EXPECT_DOUBLE_EQ(seconds(Wiring::cube, 2), 3);
  EXPECT_DOUBLE_EQ(seconds(Wiring::cube, 4), 1.5);
  EXPECT_DOUBLE_EQ(seconds(Wiring::cube, 8), 1);
  // Along each of the three dims of a cube goes half, at a third of the bandwidth.
  EXPECT_DOUBLE_EQ(seconds(Wiring::cube, 8, all_to_all), 1.5);
  EXPECT_DOUBLE_EQ(seconds(Wiring::mesh, 8, all_to_all), 7.0 / 8);
}

}  // namespace
}  // namespace shardwright
