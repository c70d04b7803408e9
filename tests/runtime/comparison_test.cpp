#include "shardwright/runtime/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/training_data.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

constexpr int devices = 4;

struct Recorded {
  Pipeline pipeline;
  Cluster cluster = host_cluster(devices);
  StepTrace trace;
};

Recorded recorded(int stages, int steps) {
  const int micro_batches = stages > 1 ? 4 : 1;
  Model model =
      build_model("ffn:batch=32,widths=48-32-32-24-10",
                  {.global_batch = {}, .precision = {}, .loss = "", .micro_batches = micro_batches});
  add_train_step(model.graph, model.loss, {"momentum", {{"rate", 0.01}, {"momentum", 0.9}}});
  PlanRequest request{.devices = devices, .parallel = Parallel::data_parallel};
  if (stages > 1)
    request.constraints =
        constraints_of({.pipelining = {Schedule::one_forward_one_backward(), stages, micro_batches}});
  Recorded out{.pipeline = compile_pipeline(model.graph, make_plan(model.graph, request),
                                            {.formats = default_devices().formats})};
  std::ostringstream notices;
  const TrainingData data = training_data(model, micro_batches, "", "", 7, notices);
  Session session(out.pipeline);
  for (int s = 0; s < steps + 1; ++s) {
    session.record(s > 0);
    session.step(data.batch(s));
  }
  out.trace = session.trace();
  return out;
}

ComparedPart sum_of(const StepComparison& c) {
  ComparedPart out;
  const auto add = [&](const ComparedPart& p) {
    out.measured_seconds += p.measured_seconds;
    out.predicted_seconds += p.predicted_seconds;
  };
  for (const auto* parts : {&c.operators, &c.collectives})
    for (const ComparedPart& p : *parts) add(p);
  add(c.bubble);
  add(c.others);
  return out;
}

TEST(Comparison, parts_add_up_to_the_step) {
  for (const int stages : {1, 2}) {
    const Recorded run = recorded(stages, 3);
    const StepComparison c = compared(run.pipeline, run.cluster, run.trace);
    const ComparedPart sum = sum_of(c);
    EXPECT_NEAR(sum.measured_seconds / c.step.measured_seconds, 1, 1e-6) << stages;
    EXPECT_NEAR(sum.predicted_seconds / c.step.predicted_seconds, 1, 1e-6) << stages;
    EXPECT_EQ(c.step.predicted_seconds, estimate(run.pipeline, run.cluster).step_seconds());
    EXPECT_EQ(c.stages.size(), static_cast<std::size_t>(stages));
    for (const ComparedPart& stage : c.stages) {
      EXPECT_GT(stage.measured_seconds, 0);
      EXPECT_LE(stage.measured_seconds, c.step.measured_seconds);
      EXPECT_GT(stage.predicted_seconds, 0);
    }
    EXPECT_GT(c.operators.size(), 3U);
    EXPECT_FALSE(c.collectives.empty());
    for (const ComparedPart& p : c.operators) EXPECT_GT(p.count, 0) << p.name;
  }
}

TEST(Comparison, is_of_the_step_of_median_length) {
  const Recorded run = recorded(1, 5);
  const StepComparison c = compared(run.pipeline, run.cluster, run.trace);
  std::vector<double> lengths;
  for (const auto& [number, interval] : steps_of(run.trace)) lengths.push_back(interval.seconds());
  std::ranges::sort(lengths);
  EXPECT_EQ(c.step.measured_seconds, lengths[2]);
}

TEST(Comparison, needs_a_recorded_step) {
  Recorded run = recorded(1, 1);
  for (auto& events : run.trace.ranks) events.clear();
  EXPECT_EQ(error_of([&] { compared(run.pipeline, run.cluster, run.trace); }),
            "no step was recorded to compare with what was predicted");
}

}  // namespace
}  // namespace shardwright
