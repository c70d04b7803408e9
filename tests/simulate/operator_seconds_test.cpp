#include "shardwright/simulate/operator_seconds.h"

#include <gtest/gtest.h>

#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

double sum(const StageSeconds& stage) {
  double out = stage.others.all();
  for (const OperatorSeconds& s : stage.operators) out += s.all();
  return out;
}

// What a device computes and waits for is told whole, and to nobody twice.
TEST(OperatorSeconds, add_up_to_the_estimate) {
  for (std::uint64_t seed = 0; seed < testing::draws(60); ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(seed);
    const Pipeline& p = drawn.pipeline;
    const Estimate e = estimate(p, cluster_called(fmt::format("a100-80g:{}", p.rank_count())));
    ASSERT_EQ(e.operators.size(), static_cast<std::size_t>(p.stage_count())) << drawn.what;
    for (int group = 0; group < p.group_count(); ++group) {
      const Estimate& of_group = e.stages.empty() ? e : e.stages[static_cast<std::size_t>(group)];
      double told = 0;
      for (int s = group; s < p.stage_count(); s += p.group_count())
        told += sum(e.operators[static_cast<std::size_t>(s)]);
      const double seconds = of_group.compute_seconds + of_group.exposed_communication_seconds;
      EXPECT_NEAR(told, seconds, 1e-9 * seconds) << drawn.what;
    }
  }
}

// A product owns its two products of the backward and the update of its weight; what is fused to it owns its own part.
TEST(OperatorSeconds, go_to_the_operator_whose_work_it_is) {
  Model model = build_model("ffn:batch=4096,widths=1024-1024-10");
  add_train_step(model.graph, model.loss, {.name = "sgd", .attributes = {{"rate", 0.01}}});
  const Plan plan =
      make_plan(model.graph, {.model = "ffn", .devices = 2, .parallel = Parallel::data_parallel});
  const Pipeline pipeline = compile_pipeline(model.graph, plan);
  const Estimate e = estimate(pipeline, cluster_called("cpu:2"));
  const StageSeconds& stage = e.operators[0];
  const auto of = [&](const std::string& name) {
    return stage.operators.at(
        static_cast<std::size_t>(model.graph.value(model.graph.find(name)).producer.index));
  };
  EXPECT_GT(of("dense1.matmul").compute, 0.5 * e.compute_seconds);
  EXPECT_GT(of("dense1.add").compute, 0);
  EXPECT_GT(of("relu1").compute, 0);
  double reductions = 0;
  for (const OperatorSeconds& s : stage.operators) reductions += s.reduction;
  EXPECT_NEAR(reductions, e.exposed_communication_seconds, 1e-9 * e.step_seconds());
  EXPECT_LT(stage.others.all(), 0.01 * e.step_seconds());
}

}  // namespace
}  // namespace shardwright
