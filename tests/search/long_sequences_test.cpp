// Whole plans of long sequences: a search that chooses how many parts they are cut into beside each number that is fixed.

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

StepOf step_of(const std::string& model) {
  return [=](int micro_batches) {
    Model m = build_model(model, {.precision = {DType::bf16}, .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {.name = "adamw"});
    return std::move(m.graph);
  };
}

PlanRequest request_for(const std::string& cluster, const std::string& fix) {
  PlanRequest out{.model = "test", .cluster = cluster_called(cluster), .search = "auto"};
  out.devices = out.cluster->devices();
  out.constraints = parse_constraints({"--fix", "offload=none" + fix});
  return out;
}

Evaluation judged(const StepOf& step, const Plan& plan) {
  return evaluate(compile_pipeline(step(plan.settings.pipelining.micro_batches), plan, {.verifies = false}),
                  plan.cluster);
}

int contexts_of(const Plan& plan) {
  int out = 1;
  for (const auto& axis : plan.stages.front().meshes.front().axes)
    if (axis.name.starts_with("cp")) out *= axis.size;
  return out;
}

std::string decoder(int seq, int batch) {
  return fmt::format("llama:layers=2,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocab=2048,seq={},batch={}",
                     seq, batch);
}

/// One sample over eight devices, and two.
TEST(LongSequences, are_cut_where_that_is_faster_and_no_fixed_number_of_parts_is) {
  for (const int batch : testing::is_full() ? std::vector{1, 2} : std::vector{1}) {
    const StepOf step = step_of(decoder(16384, batch));
    const Plan plan = make_plan(step, request_for("h100:8", ""));
    const Evaluation found = judged(step, plan);
    ASSERT_TRUE(found.fits());
    EXPECT_TRUE(contexts_of(plan) > 1 || plan.structure.empty())
        << plan.structure;  // or is of another search
    for (const int parts : {1, 2, 4, 8}) {
      const std::string fix = fmt::format(",cp={}", parts);
      const Evaluation other = judged(step, make_plan(step, request_for("h100:8", fix)));
      if (!other.fits()) continue;
      EXPECT_LE(found.estimate.step_seconds(), 1.01 * other.estimate.step_seconds()) << plan.structure << fix;
      if (plan.lower_bound_seconds) {
        EXPECT_LE(*plan.lower_bound_seconds, 1.0001 * other.estimate.step_seconds()) << fix;
      }
    }
  }
}

TEST(LongSequences, are_whole_where_they_are_short_or_that_is_what_was_asked) {
  const StepOf small = step_of(decoder(512, 2));
  EXPECT_EQ(contexts_of(make_plan(small, request_for("h100:8", ""))), 1);
  const StepOf step = step_of(decoder(16384, 1));
  EXPECT_EQ(contexts_of(make_plan(step, request_for("h100:8", ",cp=1"))), 1);
  EXPECT_EQ(contexts_of(make_plan(step, request_for("h100:8", ",cp=4"))), 4);
}

}  // namespace
}  // namespace shardwright
