// Clipping by the norm over the gradients of all stages: each sends its part of the norm before it waits for the factor.

#include <gtest/gtest.h>

#include <array>

#include "tests/support/training_run.h"

namespace shardwright {
namespace {

TEST(EndToEndClippedPipelines, losses_are_those_of_one_device) {
  OptimizerChoice optimizer{"adam", {{"rate", 0.001}}};
  optimizer.clip_norm = 0.1;  // below the norm that there is
  for (const char* model :
       {"ffn:batch=32,widths=48-32-32-24-10", "gpt:layers=4,hidden=32,heads=4,vocab=48,seq=8,batch=8"}) {
    const testing::TrainingRun run{
        .model = model, .file = "", .optimizer = optimizer, .precision = DType::f64, .steps = 4};
    const auto alone = testing::run_alone(run);
    for (const auto& [devices, stages, micro_batches, level] :
         {std::array{2, 2, 1, 0}, std::array{4, 2, 4, 2}, std::array{6, 3, 2, 1}, std::array{4, 4, 4, 0}}) {
      SCOPED_TRACE(fmt::format("{} on {} devices, {} stages, {} micro-batches, level {}", model, devices,
                               stages, micro_batches, level));
      testing::expect_same(
          testing::run_planned(
              run, {.devices = devices,
                    .constraints = constraints_of(
                        {.optimizer_parallel = {level, 0},
                         .pipelining = {Schedule::one_forward_one_backward(), stages, micro_batches}})}),
          alone, {.losses = 1e-9, .weights = 1e-7});
    }
  }
}

}  // namespace
}  // namespace shardwright
