// Stages on hosts of their own that are tensor parallel inside, so that ranks wait for neighbours while their activations
// are on their way (tests/end_to_end/mpi_test.sh stages_on_two_hosts). That they leave all the same, the contract of
// communicators shows, where no luck with timing is needed.

#include <gtest/gtest.h>

#include "tests/support/training_run.h"

namespace shardwright {
namespace {

// Half of a micro-batch's activations, which each rank sends, is more than MPI sends before it is asked for.
TEST(Hosts, stages_end_with_the_losses_of_one_device) {
  const testing::TrainingRun run{.model = "ffn:batch=512,widths=64-512-512-512-512-10",
                                 .optimizer = {"sgd", {{"rate", 0.1}}},
                                 .precision = DType::f64,
                                 .steps = 5};
  PlanRequest request{
      .devices = 4,
      .constraints = constraints_of({.pipelining = {Schedule::one_forward_one_backward(), 2, 4}})};
  for (int layer = 1; layer <= 5; ++layer)
    request.constraints.tensors[fmt::format("dense{}.matmul", layer)] = {.in = {{1, 2}, {2, 1}}};
  const auto have = testing::run_planned(run, std::move(request));
  testing::expect_same(have, testing::run_alone(run), {.losses = 1e-9, .weights = 1e-7});
}

}  // namespace
}  // namespace shardwright
