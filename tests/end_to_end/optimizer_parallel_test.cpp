// Optimizer parallelism and clipping by the global norm change no loss: every level, with tensors that no axis divides,
// in groups and beside tensor parallelism. In shardwright_tests devices are threads, in mpi_tests processes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardwright/runtime/safetensors.h"
#include "tests/support/draws.h"
#include "tests/support/on_each_rank.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct Case {
  std::string name;
  OptimizerChoice optimizer;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class SharedStates : public ::testing::TestWithParam<Case> {
 protected:
  /// Layers of 13, 11, 7 and 5: a bias of 5 over 8 devices leaves some of them nothing.
  TrainingRun run() const {
    return {.model = "ffn:widths=13-11-7-5,batch=24",
            .file = {},
            .optimizer = GetParam().optimizer,
            .precision = DType::f64,
            .steps = 4};
  }
};

constexpr testing::Tolerance digits{.losses = 1e-9, .weights = 1e-8};

TEST_P(SharedStates, of_dims_that_no_axis_divides_give_the_losses_of_one_device) {
  const auto alone = testing::run_alone(run());
  for (int devices : {2, 3, 4, 6, 8})
    for (int level : {1, 2, 3}) {
      if (devices > most_ranks()) continue;
      SCOPED_TRACE(fmt::format("level {} on {} devices", level, devices));
      testing::expect_same(
          testing::run_planned(run(), {.devices = devices,
                                       .parallel = Parallel::data_parallel,
                                       .constraints = constraints_of({.optimizer_parallel = {level, 0}})}),
          alone, digits);
    }
}

TEST_P(SharedStates, of_groups_give_the_losses_of_one_device) {
  const auto alone = testing::run_alone(run());
  for (int group : {2, 4})
    for (int level : {1, 2, 3}) {
      if (most_ranks() < 8) continue;
      SCOPED_TRACE(fmt::format("level {}, groups of {}", level, group));
      testing::expect_same(
          testing::run_planned(run(),
                               {.devices = 8,
                                .parallel = Parallel::data_parallel,
                                .constraints = constraints_of({.optimizer_parallel = {level, 0, group}})}),
          alone, digits);
    }
}

const Attributes slow{{"rate", 0.05}};

INSTANTIATE_TEST_SUITE_P(EndToEnd, SharedStates,
                         ::testing::Values(Case{"sgd", {"sgd", slow}}, Case{"momentum", {"momentum", slow}},
                                           Case{"adam", {"adam", slow}}, Case{"adamw", {"adamw", slow}},
                                           Case{"sgd_clipped", {"sgd", slow, 0.1}},
                                           Case{"adamw_clipped", {"adamw", slow, 0.1}}),
                         [](const auto& tested) { return tested.param.name; });

// ---- clipping ----

const OptimizerChoice clipped{"momentum", {{"rate", 0.2}, {"momentum", 0.9}}, 0.8};

TrainingRun clipped_run(const OptimizerChoice& optimizer) {
  return {.model = "ffn:widths=24-16-10,batch=16",
          .file = "ffn_clipped",
          .optimizer = optimizer,
          .precision = DType::f64};
}

void expect_clipped_as_pytorch_does(const std::optional<testing::Outcome>& have) {
  if (!have) return;  // another process has it
  testing::expect_losses_of_reference(*have, clipped_run(clipped), 1e-9);
  const SafetensorsFile file = SafetensorsFile::open(testing::path_of_reference("ffn_clipped"));
  for (const auto& [name, values] : have->weights)
    EXPECT_LE(testing::difference(values, to_doubles(file.read("final." + name))), 1e-9) << name;
}

TEST(EndToEndClipping, gives_the_losses_of_pytorch_under_every_level) {
  expect_clipped_as_pytorch_does(testing::run_alone(clipped_run(clipped)));
  for (int devices : {2, 4, 8})
    for (const OptimizerParallel& options :
         std::vector<OptimizerParallel>{{0}, {1, 0}, {1, 200}, {2, 0}, {3, 0}}) {
      if (devices > most_ranks()) continue;
      SCOPED_TRACE(
          fmt::format("level {} from {} bytes on {} devices", options.level, options.threshold, devices));
      expect_clipped_as_pytorch_does(testing::run_planned(
          clipped_run(clipped), {.devices = devices,
                                 .parallel = Parallel::data_parallel,
                                 .constraints = constraints_of({.optimizer_parallel = options})}));
    }
}

TEST(EndToEndClipping, is_of_the_norm_of_all_gradients_however_weights_are_split) {
  if (most_ranks() < 4) GTEST_SKIP() << "needs 4 ranks, there are " << most_ranks();
  for (const char* split :
       {R"({"dense1.matmul": {"in": [[2, 1], [1, 2]]}, "dense2.matmul": {"in": [[2, 2], [2, 1]]}})",
        R"({"dense1.matmul": {"in": [[1, 4], [4, 1]]}})"}) {
    SCOPED_TRACE(split);
    expect_clipped_as_pytorch_does(testing::run_planned(
        clipped_run(clipped), {.devices = 4, .constraints = parse_annotations(split, "test")}));
  }
}

/// Most steps of the reference were clipped, and not all.
TEST(Clipping, of_the_reference_changes_its_losses) {
  const std::vector<double> norms =
      to_doubles(SafetensorsFile::open(testing::path_of_reference("ffn_clipped")).read("norm"));
  const auto above =
      std::count_if(norms.begin(), norms.end(), [](double n) { return n > clipped.clip_norm; });
  EXPECT_GT(above, 0);
  EXPECT_LT(above, static_cast<std::ptrdiff_t>(norms.size()));
  OptimizerChoice unclipped = clipped;
  unclipped.clip_norm = 0;
  const auto with = testing::run_alone(clipped_run(clipped)),
             without = testing::run_alone(clipped_run(unclipped));
  if (!with) return;
  EXPECT_GT(std::abs(with->losses.back() - without->losses.back()), 0.01);
}

/// From level 2 on gradients are reduced while the backward goes on, in buckets, whoever else asks something of it.
TEST(EndToEndSharedStates, reduced_as_they_come_give_the_losses_of_one_device) {
  const TrainingRun run{.model = "gpt:layers=4,hidden=16,heads=2,vocab=24,seq=4,batch=16",
                        .file = {},
                        .optimizer = {"adamw", {{"rate", 0.001}}, 0.1},
                        .precision = DType::f64,
                        .steps = 3};
  const auto alone = testing::run_alone(run);
  unsigned mix = 0;
  for (int level : {0, 1, 2, 3})
    for (int micro_batches : {1, 2})
      for (const char* fusion : {"auto", "none", "size:1"})
        for (bool recomputes : {false, true}) {
          if (!testing::is_asked(mix++, 6, 3)) continue;
          SCOPED_TRACE(fmt::format("level {}, {} micro-batches, fusion {}, recompute {}", level,
                                   micro_batches, fusion, recomputes));
          Settings settings{.optimizer_parallel = {level, 0}, .comm_fusion = parse_comm_fusion(fusion)};
          settings.pipelining.micro_batches = micro_batches;
          if (recomputes) settings.recompute.mode = RecomputeMode::full;
          testing::expect_same(testing::run_planned(run, {.devices = 4,
                                                          .parallel = Parallel::data_parallel,
                                                          .constraints = constraints_of(settings)}),
                               alone, digits);
        }
}

/// Weights that are split by a plan are shared further over what replicas they have.
TEST(EndToEndSharedStates, beside_tensor_parallelism_give_the_losses_of_one_device) {
  if (most_ranks() < 8) GTEST_SKIP() << "needs 8 ranks, there are " << most_ranks();
  const TrainingRun run{.model = "ffn:widths=20-12-10-6,batch=24",
                        .file = {},
                        .optimizer = {"adam", slow, 0.2},
                        .precision = DType::f64,
                        .steps = 4};
  const Constraints split = parse_annotations(
      R"({"dense1.matmul": {"in": [[4, 1], [1, 2]]}, "dense2.matmul": {"in": [[4, 2], [2, 1]]}})", "test");
  const auto alone = testing::run_alone(run);
  for (const OptimizerParallel& options :
       std::vector<OptimizerParallel>{{1, 0}, {2, 0}, {3, 0}, {1, 0, 2}, {2, 0, 2}, {3, 0, 2}, {1, 500}}) {
    SCOPED_TRACE(fmt::format("level {}, group {}", options.level, options.group));
    testing::expect_same(
        testing::run_planned(
            run,
            {.devices = 8, .constraints = merged(split, constraints_of({.optimizer_parallel = options}))}),
        alone, digits);
  }
}

}  // namespace
}  // namespace shardwright
