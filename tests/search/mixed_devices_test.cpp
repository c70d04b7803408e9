// Plans for devices of several kinds: as fast as the sum of their speeds, nearly, and within the memory of each.

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

struct Judged {
  Plan plan;
  Evaluation evaluation;
};

Judged judged(const std::string& model, const std::string& cluster) {
  const StepOf step = [=](int micro_batches) {
    Model m = build_model(model, {.precision = {DType::bf16}, .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {.name = "adamw"});
    return std::move(m.graph);
  };
  PlanRequest request{.model = "test", .cluster = cluster_called(cluster), .search = "auto"};
  request.devices = request.cluster->devices();
  request.constraints = parse_constraints({"--fix", "offload=none"});
  Plan plan = make_plan(step, request);
  const Evaluation e =
      evaluate(compile_pipeline(step(plan.settings.pipelining.micro_batches), plan, {.verifies = false}),
               plan.cluster);
  return {std::move(plan), e};
}

const std::string model = "llama2-7b:layers=24,batch=64";

/// A stage on each kind, with layers by its speed.
TEST(MixedDevices, reach_nine_tenths_of_the_sum_of_their_speeds) {
  const double fast = judged(model, "h100:8").evaluation.estimate.step_seconds();
  const double slow = judged(model, "a100-80g:8").evaluation.estimate.step_seconds();
  for (const std::string cluster : {"h100:8+a100-80g:8", "a100-80g:8+h100:8"}) {
    if (cluster.starts_with("h100") && !testing::is_full()) continue;
    const Judged both = judged(model, cluster);
    ASSERT_TRUE(both.evaluation.fits()) << cluster;
    const double speed = 1 / both.evaluation.estimate.step_seconds();
    EXPECT_GE(speed, 0.9 * (1 / fast + 1 / slow)) << cluster << " " << both.plan.structure;
    if (both.plan.lower_bound_seconds) {
      EXPECT_LE(*both.plan.lower_bound_seconds, both.evaluation.estimate.step_seconds() * (1 + 1e-9));
    }
  }
}

/// What fits on devices of 80 GB, and of 40 GB only with fewer layers.
TEST(MixedDevices, hold_what_each_has_room_for) {
  const Judged both = judged(model, "h100:8+a100-40g:8");
  ASSERT_TRUE(both.evaluation.fits());
  const auto& stages = both.evaluation.estimate.stages;
  const int devices = both.plan.devices() / static_cast<int>(std::max<std::size_t>(1, stages.size()));
  for (std::size_t s = 0; s < stages.size(); ++s)
    EXPECT_LE(stages[s].arena_bytes,
              usable_bytes(both.plan.cluster.part(static_cast<int>(s) * devices, devices)));
}

}  // namespace
}  // namespace shardwright
