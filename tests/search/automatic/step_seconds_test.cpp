// Forecasts of a step beside the program that it becomes, where what goes once a step takes most of it.

#include "shardwright/search/automatic/step_seconds.h"

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/automatic/candidates.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

using namespace automatic;

/// Two nodes of four devices with a network of a twentieth between them.
Cluster slow_network() {
  Cluster out = cluster_called("a100-80g:2x4");
  out.links.back().bytes_per_second /= 20, out.links.back().latency_seconds *= 4;
  return out;
}

/// A tied decoder of 32 samples.
Graph decoder(int micro_batches) {
  Model m = build_model(
      "gpt:layers=8,hidden=1024,heads=16,vocab=8192,seq=128",
      {.global_batch = 32, .precision = *precision_called("bf16"), .micro_batches = micro_batches});
  add_train_step(m.graph, m.loss, {.name = "adamw"});
  return std::move(m.graph);
}

/// Before, the reduction of gradients was counted with every micro-batch, and what tied stages send each other not at all.
TEST(StepSeconds, are_those_of_the_program_where_gradients_take_most) {
  PlanRequest request{.model = "test", .cluster = slow_network()};
  request.devices = 8;
  request.verifies = false;
  const StepOf step = decoder;
  Tables tables(step, request);
  Bounds bounds(tables, 1);
  Candidates candidates(tables, bounds, *request.cluster, usable_bytes(*request.cluster));
  for (const char* words : {"dp=8,tp=1,pp=1,micro_batches=1,zero=1", "dp=8,tp=1,pp=1,micro_batches=4,zero=0",
                            "dp=8,tp=1,pp=1,micro_batches=4,zero=1", "dp=4,tp=2,pp=1,micro_batches=8,zero=1",
                            "dp=4,tp=1,pp=2,micro_batches=4,zero=1,schedule=1f1b",
                            "dp=4,tp=1,pp=2,micro_batches=4,zero=1,schedule=interleaved:2",
                            "dp=2,tp=1,pp=4,micro_batches=8,zero=1,schedule=1f1b"}) {
    SCOPED_TRACE(words);
    Constraints s = parse_constraints({"test", words});
    if (!s.recompute) s.recompute = RecomputeMode::none;
    const auto c = candidates.forecast(s);
    ASSERT_TRUE(c);
    PlanRequest asked = with_structure(request, s);
    asked.parallel = Parallel::semi_auto_parallel;
    const Graph graph = decoder(*s.micro_batches);
    const Evaluation e =
        evaluate(compile_pipeline(graph, make_plan(graph, asked), {.verifies = false}), *request.cluster);
    EXPECT_NEAR(c->forecast.seconds / e.estimate.step_seconds(), 1, 0.15);
    EXPECT_LE(0.99 * c->forecast.hopeful_seconds, e.estimate.step_seconds());
  }
}

}  // namespace
}  // namespace shardwright
