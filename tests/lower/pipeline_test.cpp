#include "shardwright/lower/pipeline.h"

#include <gtest/gtest.h>

#include "shardwright/frontend/model.h"
#include "shardwright/lower/step_transfers.h"
#include "shardwright/lower/traffic.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/verify/verify.h"
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
  TransfersOfRanks transfers(p);
  for (int i = 0; i < static_cast<int>(p.crossings.size()); ++i) {
    const PlacedCrossing copy = p.crossings[static_cast<std::size_t>(i)];
    EXPECT_EQ(copy.channel, i + 1);
    for (int rank = 0; rank < p.rank_count(); ++rank)
      if (const auto transfer = transfers.of_crossing(i, rank)) {
        EXPECT_EQ(transfer->parts.front().transfer->channel, copy.channel);
        EXPECT_EQ(transfer->parts.front().transfer->group, p.transfers_of(copy).of(rank).group);
      }
  }
}

/// A decoder with a tied head in two stages, each on two replicas; of the second the first rank's step.
struct TiedHead {
  Pipeline pipeline;
  RankStep step;
};
TiedHead tied_head(int micro_batches) {
  const std::string model =
      fmt::format("gpt:layers=2,hidden=16,heads=2,vocab=96,seq=4,batch={}", 4 * micro_batches);
  Model m = build_model(model, {.global_batch = {}, .loss = "", .micro_batches = micro_batches});
  add_train_step(m.graph, m.loss, {"adamw", {{"rate", 0.01}}});
  PlanRequest request{.devices = 4, .parallel = Parallel::data_parallel};
  request.constraints.degrees.set("pp", 2);
  request.constraints.micro_batches = micro_batches;
  TiedHead out{compile_pipeline(m.graph, make_plan(m.graph, request)), {}};
  out.step = step_of(out.pipeline, 2);
  return out;
}

/// The head's share of the embedding's gradient, of all micro-batches, is reduced over the replicas once and sent once.
TEST(Pipeline, reduces_the_gradient_of_a_tied_head_once) {
  for (int micro_batches : {1, 2, 8}) {
    SCOPED_TRACE(micro_batches);
    const auto [pipeline, step] = tied_head(micro_batches);
    const Graph& graph = pipeline.stage(1).graph;
    const std::vector<int> times = times_started(step);
    int reduced = 0, sent = 0;
    for (std::size_t t = 0; t < step.transfers.size(); ++t)
      for (const Part& part : step.transfers[t].parts)
        if (step.transfers[t].from_stage == 1 && part.from.is_valid() &&
            graph.value(part.from).global_type().shape == Shape{96, 16})
          (step.transfers[t].crossing < 0 ? reduced : sent) += times[t];
    EXPECT_EQ(reduced, 1);
    EXPECT_EQ(sent, 1);
    EXPECT_NO_THROW(prove(pipeline));
  }
}

/// With each micro-batch a rank of the head receives activations of its samples and a loss: less than the gradient.
TEST(Pipeline, of_a_tied_head_receives_no_more_gradients_with_more_micro_batches) {
  const auto bytes = [](int micro_batches) { return traffic_of(tied_head(micro_batches).step).bytes; };
  const std::int64_t more = (bytes(8) - bytes(4)) / 4;
  EXPECT_LT(more, 96 * 16 * 4);
}

}  // namespace
}  // namespace shardwright
