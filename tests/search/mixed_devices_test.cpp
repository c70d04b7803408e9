// Plans for devices of several kinds: as fast as the sum of their speeds, nearly, and within the memory of each.

#include <gtest/gtest.h>

#include <numeric>

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

StepOf step_of(const std::string& model) {
  return [=](int micro_batches) {
    Model m = build_model(model, {.precision = {DType::bf16}, .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {.name = "adamw"});
    return std::move(m.graph);
  };
}

Judged judged(const std::string& model, const std::string& cluster, const std::string& fixed = "") {
  const StepOf step = step_of(model);
  PlanRequest request{.model = "test", .cluster = cluster_called(cluster), .search = "auto"};
  request.devices = request.cluster->devices();
  request.constraints = parse_constraints({"--fix", "offload=none" + (fixed.empty() ? "" : "," + fixed)});
  Plan plan = make_plan(step, request);
  const Evaluation e =
      evaluate(compile_pipeline(step(plan.settings.pipelining.micro_batches), plan, {.verifies = false}),
               plan.cluster);
  return {std::move(plan), e};
}

/// Of the program that `set` asks for.
double seconds_of_set(const std::string& model, const std::string& cluster, const std::string& set,
                      int micro_batches, std::vector<int> layers = {}) {
  PlanRequest request{.model = "test", .cluster = cluster_called(cluster)};
  request.devices = request.cluster->devices();
  request.constraints = parse_constraints({"--set", set});
  request.constraints.micro_batches = micro_batches;
  request.is_set = true;
  request.stage_layers = std::move(layers);
  const Graph graph = step_of(model)(micro_batches);
  const Plan plan = make_plan(graph, request);
  return evaluate(compile_pipeline(graph, plan, {.verifies = false}), plan.cluster).estimate.step_seconds();
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

/// Of a network that is too small for stages: replicas on both kinds, with samples by their speed.
TEST(MixedDevices, have_shares_of_the_batch_by_their_speed) {
  const std::string small = "llama:layers=4,hidden=2048,heads=16,ffn=5504,vocab=32000,seq=1024,batch=256";
  const double fast = judged(small, "h100:4").evaluation.estimate.step_seconds();
  const double slow = judged(small, "a100-80g:4").evaluation.estimate.step_seconds();
  const Judged both = judged(small, "h100:4+a100-80g:4");
  const std::vector<int>& shares = both.plan.stages.front().meshes.front().axes.front().shares;
  ASSERT_EQ(shares.size(), 8) << both.plan.structure;
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0) % 16, 0);
  EXPECT_NEAR(static_cast<double>(shares.front()) / shares.back(), slow / fast, 0.3);
  EXPECT_GE(1 / both.evaluation.estimate.step_seconds(), 0.94 * (1 / fast + 1 / slow));
  EXPECT_LE(*both.plan.lower_bound_seconds, both.evaluation.estimate.step_seconds());
}

/// Stages of which one has devices of both kinds: the bound is no more than what any cut of the layers takes.
TEST(MixedDevices, bound_stages_with_shares_by_what_they_can_take) {
  const std::string model = "llama:layers=12,hidden=4096,heads=32,ffn=11008,vocab=32000,seq=2048,batch=96";
  const std::string fixed = "dp=6,tp=1,pp=2,micro_batches=8,zero=1,batch_shares=speed,recompute=none";
  const Judged best = judged(model, "h100:3+a100-80g:9", fixed + ",schedule=1f1b");
  double least = best.evaluation.estimate.step_seconds();
  for (const std::vector<int>& layers : {std::vector{7, 5}, {8, 4}, {9, 3}}) {
    const double seconds = seconds_of_set(model, "h100:3+a100-80g:9", fixed, 8, layers);
    EXPECT_LE(*best.plan.lower_bound_seconds, seconds) << layers[0];
    least = std::min(least, seconds);
  }
  EXPECT_LE(best.evaluation.estimate.step_seconds(), 1.02 * least);
}

/// Every plan of a few degrees, with equal shares and by speed, as programs are priced.
TEST(MixedDevices, have_the_best_of_a_grid_with_shares) {
  const std::string model = "gpt:layers=4,hidden=1024,heads=16,vocab=30000,seq=512,batch=32";
  const std::string cluster = "a100-80g:2+h100:2";
  const Judged best = judged(model, cluster);
  for (const std::string degrees : {"dp=4", "dp=2,tp=2", "dp=2,pp=2", "tp=2,pp=2", "tp=4", "pp=4"})
    for (const std::string settings : {"", ",zero=1", ",zero=3"})
      for (const std::string shares : {"", ",batch_shares=speed"})
        for (const int micro_batches : {1, 2, 4}) {
          if (degrees.find("dp") == degrees.npos && !(settings + shares).empty()) continue;
          const std::string set = degrees + settings + shares;
          const double seconds = seconds_of_set(model, cluster, set, micro_batches);
          EXPECT_LE(best.evaluation.estimate.step_seconds(), 1.01 * seconds) << set << " " << micro_batches;
          EXPECT_LE(*best.plan.lower_bound_seconds, seconds) << set;
        }
}

}  // namespace
}  // namespace shardwright
