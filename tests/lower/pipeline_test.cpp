#include "shardwright/lower/pipeline.h"

#include <gtest/gtest.h>

#include "tests/support/drawn_pipeline.h"

namespace shardwright {
namespace {

/// The first drawn pipeline with several crossings.
Pipeline with_crossings() {
  for (std::uint64_t seed = 0;; ++seed)
    if (testing::DrawnPipeline drawn = testing::drawn_pipeline(seed); drawn.pipeline.crossings.size() > 2)
      return std::move(drawn.pipeline);
}

TEST(Pipeline, finds_what_crosses_in_both_stages) {
  const Pipeline p = with_crossings();
  for (const PlacedCrossing& c : p.crossings) {
    const Graph &giver = p.stage(c.from).graph, &taker = p.stage(c.to).graph;
    EXPECT_EQ(giver.value(c.sent).global_type(), taker.value(c.received).global_type());
    EXPECT_EQ(taker.node(taker.value(c.received).producer).op->kind, OpKind::receive);
    EXPECT_EQ(taker.node(taker.value(c.received).producer).phase, c.phase);
  }
}

TEST(Pipeline, transfers_of_a_crossing_are_on_its_own_channel_wherever_it_is_copied) {
  const Pipeline p = with_crossings();
  for (std::size_t i = 0; i < p.crossings.size(); ++i) {
    const PlacedCrossing copy = p.crossings[i];
    EXPECT_EQ(copy.channel, static_cast<int>(i) + 1);
    for (const auto& [rank, transfer] : p.transfers_of(copy)) {
      EXPECT_EQ(transfer.channel, copy.channel);
      const Transfer own = p.transfer_of(copy, rank);
      EXPECT_EQ(own.channel, copy.channel);
      EXPECT_EQ(own.group, transfer.group);
    }
  }
}

}  // namespace
}  // namespace shardwright
