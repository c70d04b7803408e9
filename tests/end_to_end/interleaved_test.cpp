// Interleaved stages: several chunks of the network on the devices of each. The losses are those of one device.

#include <gtest/gtest.h>

#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/verify/verify.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

/// Stages, chunks of each, micro-batches, devices, level.
struct Cut {
  int stages = 2, chunks = 2, micro_batches = 4, devices = 2, level = 0;
};

void expect_same_losses(const TrainingRun& run, std::initializer_list<Cut> cuts) {
  const auto alone = testing::run_alone(run);
  for (const Cut& c : cuts) {
    SCOPED_TRACE(fmt::format("{}: {} stages of {} chunks, {} micro-batches, {} devices, level {}", run.model,
                             c.stages, c.chunks, c.micro_batches, c.devices, c.level));
    const PlanRequest request{
        .devices = c.devices,
        .parallel = c.devices > c.stages ? Parallel::data_parallel : Parallel::auto_parallel,
        .constraints =
            constraints_of({.optimizer_parallel = {c.level, 0},
                            .pipelining = {Schedule::interleaved(c.chunks), c.stages, c.micro_batches}})};
    testing::expect_same(testing::run_planned(run, request), alone, {.losses = 1e-9, .weights = 1e-7});
  }
}

TEST(EndToEndInterleaved, losses_of_a_dense_network_are_those_of_one_device) {
  expect_same_losses({.model = "ffn:batch=48,widths=48-32-32-32-32-32-32-32-32-32-32-24-10",
                      .file = "",
                      .optimizer = {"adam", {{"rate", 0.001}}},
                      .precision = DType::f64,
                      .steps = 4},
                     {{2, 2, 1, 2, 0},
                      {2, 2, 4, 2, 0},
                      {2, 3, 3, 2, 0},
                      {2, 2, 4, 4, 1},
                      {2, 2, 4, 4, 2},
                      {2, 2, 4, 4, 3},
                      {4, 2, 8, 4, 0},
                      {4, 3, 6, 4, 0}});
}

/// Its embedding is tied: the weight goes to another chunk, its gradient comes back; and all are clipped by one norm.
TEST(EndToEndInterleaved, losses_of_a_decoder_with_tied_weights_are_those_of_one_device) {
  OptimizerChoice optimizer{"adam", {{"rate", 0.001}}};
  optimizer.clip_norm = 0.1;
  expect_same_losses({.model = "gpt:layers=8,hidden=16,heads=2,vocab=24,seq=4,batch=8",
                      .file = "",
                      .optimizer = optimizer,
                      .precision = DType::f64,
                      .steps = 3},
                     {{2, 2, 4, 2, 0}, {2, 3, 4, 2, 0}, {2, 2, 4, 4, 2}, {4, 2, 8, 4, 0}, {2, 2, 1, 2, 0}});
}

/// Nobody waits for ever, whatever the numbers.
TEST(EndToEndInterleaved, steps_are_proven) {
  for (int stages : {2, 3, 4})
    for (int chunks : {1, 2, 3})
      for (int micro_batches : {1, 2, 3, 4, 5, 6, 7, 9}) {
        SCOPED_TRACE(fmt::format("{} stages of {} chunks, {} micro-batches", stages, chunks, micro_batches));
        const std::string name =
            fmt::format("ffn:batch={},widths=8-8-8-8-8-8-8-8-8-8-8-8-8-8-8-8", 2 * micro_batches);
        Model model = build_model(name, {.global_batch = {}, .loss = "", .micro_batches = micro_batches});
        OptimizerChoice optimizer{"sgd", {{"rate", 0.1}}};
        optimizer.clip_norm = 1;
        add_train_step(model.graph, model.loss, optimizer);
        const Pipelining pipelining{Schedule::interleaved(chunks), stages, micro_batches};
        const Pipeline pipeline = compile_pipeline(
            model.graph, make_plan(model.graph, {.model = name,
                                                 .devices = stages,
                                                 .search = "recursive",
                                                 .constraints = constraints_of({.pipelining = pipelining})}));
        EXPECT_EQ(pipeline.stage_count(), stages * chunks);
        EXPECT_EQ(pipeline.rank_count(), stages);
        EXPECT_NO_THROW(prove(pipeline));
      }
}

}  // namespace
}  // namespace shardwright
