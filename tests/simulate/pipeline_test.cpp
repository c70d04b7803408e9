// What a pipeline's step is estimated to take: bubbles and what crosses between stages.

#include <gtest/gtest.h>

#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {
namespace {

Pipeline compiled(const std::string& model, const Pipelining& pipelining, const OptimizerChoice& optimizer,
                  int devices = 0) {
  Model m = build_model(model, {.global_batch = {}, .loss = "", .micro_batches = pipelining.micro_batches});
  add_train_step(m.graph, m.loss, optimizer);
  m.graph.outputs.resize(1);
  return compile_pipeline(m.graph, make_plan(m.graph, {.model = model,
                                                       .devices = devices ? devices : pipelining.stages,
                                                       .parallel = Parallel::data_parallel,
                                                       .pipelining = pipelining}));
}

const OptimizerChoice sgd{"sgd", {{"rate", 0.01}}};

/// S equal stages work M of M + S - 1 turns (GPipe, Huang et al. 2019; the same for 1F1B).
TEST(PipelineEstimate, has_the_bubbles_that_are_known) {
  for (int stages : {2, 4})
    for (int micro_batches : {4, 8, 16})
      for (Schedule schedule : {Schedule::gpipe, Schedule::one_forward_one_backward}) {
        SCOPED_TRACE(
            fmt::format("{} stages, {} micro-batches, {}", stages, micro_batches, name_of(schedule)));
        const Pipeline p = compiled(
            fmt::format("llama:layers=16,hidden=256,heads=4,ffn=688,vocab=32,seq=64,batch={}", micro_batches),
            {schedule, stages, micro_batches}, sgd);
        const Estimate e = estimate(p, cluster_called(fmt::format("cpu:{}", stages)));
        const double known = (stages - 1.0) / (micro_batches + stages - 1.0);
        EXPECT_NEAR(e.bubble_seconds / e.step_seconds(), known, 0.03);
      }
}

/// On links that take a second to start: forward and backward; then the norm of all gradients to the last stage, whose
/// own part came while the first still worked. A tied weight and its gradient cross beside forward and backward.
TEST(PipelineEstimate, counts_what_crosses) {
  Cluster cluster = cluster_called("cpu:2");
  const auto seconds_of_links = [&](const std::string& model, const OptimizerChoice& optimizer) {
    const Pipeline p = compiled(model, {.stages = 2}, optimizer);
    cluster.links.back().latency_seconds = 0;
    const double none = estimate(p, cluster).step_seconds();
    cluster.links.back().latency_seconds = 1;
    return estimate(p, cluster).step_seconds() - none;
  };
  const std::string sizes = "layers=2,hidden=32,heads=2,vocab=32,seq=8,batch=4";
  OptimizerChoice clipped = sgd;
  clipped.clip_norm = 1;
  EXPECT_NEAR(seconds_of_links("llama:ffn=64," + sizes, sgd), 2, 1e-3);
  EXPECT_NEAR(seconds_of_links("gpt:" + sizes, sgd), 2, 1e-3);
  EXPECT_NEAR(seconds_of_links("llama:ffn=64," + sizes, clipped), 3, 1e-3);
}

/// On a link that takes a second for the table: to the other stage in front of the step, and back as a gradient.
TEST(PipelineEstimate, counts_tied_weights) {
  const Pipeline p = compiled("gpt:layers=2,hidden=32,heads=2,vocab=4096,seq=8,batch=4", {.stages = 2}, sgd);
  Cluster cluster = cluster_called("cpu:2");
  const double fast = estimate(p, cluster).step_seconds();
  cluster.links.back().bytes_per_second = 4096 * 32 * 4 / cluster.link_efficiency;
  EXPECT_NEAR(estimate(p, cluster).step_seconds() - fast, 2, 0.05);
}

}  // namespace
}  // namespace shardwright
