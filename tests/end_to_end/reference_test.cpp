// Training runs of PyTorch (tests/reference), repeated: on one device, and under many plans on several.
// In shardwright_tests devices are threads; in mpi_tests they are processes, on one host or several.
// SHARDWRIGHT_FULL=1 runs ten random plans for each number of devices instead of two.

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "shardwright/runtime/safetensors.h"
#include "tests/support/draws.h"
#include "tests/support/on_each_rank.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::difference;
using testing::Outcome;
using testing::TrainingRun;

struct Reference {
  std::string name;
  std::string model;
  std::string file;  // empty: none, the run on one device is the reference
  OptimizerChoice optimizer;
  double tolerance = 2e-6;         // of the losses on one device, relative
  double weight_tolerance = 1e-4;  // of the weights in f32
  std::string annotations;         // the seeds', for 8 devices
  std::vector<int> devices{2, 4, 8};

  TrainingRun run(DType precision) const { return {model, file, optimizer, precision}; }
};
void PrintTo(const Reference& r, std::ostream* out) { *out << r.name; }

std::optional<Outcome> run_alone(const Reference& r, DType precision) {
  return testing::run_alone(r.run(precision));
}
std::optional<Outcome> run_planned(const Reference& r, DType precision, PlanRequest request) {
  return testing::run_planned(r.run(precision), std::move(request));
}
std::optional<Outcome> run_random(const Reference& r, DType precision, int devices, std::uint64_t seed) {
  return testing::run_random(r.run(precision), devices, seed);
}
void expect_same(const std::optional<Outcome>& have, const std::optional<Outcome>& want, double losses,
                 double weights) {
  testing::expect_same(have, want, {losses, weights});
}

class References : public ::testing::TestWithParam<Reference> {
 protected:
  const Reference& r() const { return GetParam(); }
  /// As many as there can be here.
  std::vector<int> devices_here() const {
    std::vector<int> out = r().devices;
    std::erase_if(out, [](int n) { return n > most_ranks(); });
    return out;
  }
};

class ReferencesOfPyTorch : public References {};

TEST_P(ReferencesOfPyTorch, losses_of_one_device_are_the_same) {
  const std::optional<Outcome> have = run_alone(r(), DType::f32);
  if (!have) return;  // another process has it
  testing::expect_losses_of_reference(*have, r().run(DType::f32), r().tolerance);
  const SafetensorsFile file = SafetensorsFile::open(testing::path_of_reference(r().file));
  for (const std::string& name : file.names())
    if (name.starts_with("final.")) {
      EXPECT_LE(difference(have->weights.at(name.substr(6)), to_doubles(file.read(name))),
                r().weight_tolerance)
          << name;
    }
}

TEST_P(References, data_parallel_and_propagation_agree_with_one_device) {
  const std::optional<Outcome> want = run_alone(r(), DType::f32);
  for (int devices : devices_here())
    for (Parallel mode : {Parallel::data_parallel, Parallel::auto_parallel}) {
      SCOPED_TRACE(fmt::format("{} on {} devices", name_of(mode), devices));
      expect_same(run_planned(r(), DType::f32, {.devices = devices, .parallel = mode}), want, 1e-4,
                  r().weight_tolerance);
    }
}

TEST_P(References, optimizer_parallel_agrees_with_one_device) {
  const std::optional<Outcome> want = run_alone(r(), DType::f32);
  for (int devices : devices_here())
    for (int level : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("level {} on {} devices", level, devices));
      expect_same(run_planned(r(), DType::f32,
                              {.devices = devices,
                               .parallel = Parallel::data_parallel,
                               .constraints = constraints_of({.optimizer_parallel = {level, 0}})}),
                  want, 1e-4, r().weight_tolerance);
    }
}

class ReferencesOfSeeds : public References {};

TEST_P(ReferencesOfSeeds, annotations_agree_with_one_device) {
  if (most_ranks() < 8) GTEST_SKIP() << "needs 8 ranks, there are " << most_ranks();
  const Constraints annotations = parse_annotations(r().annotations, "annotations");
  const std::optional<Outcome> want = run_alone(r(), DType::f32);
  for (Parallel mode : {Parallel::semi_auto_parallel, Parallel::auto_parallel})
    for (int level : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("{}, optimizer parallel {}", name_of(mode), level));
      expect_same(run_planned(r(), DType::f32,
                              {.devices = 8,
                               .parallel = mode,
                               .constraints =
                                   merged(annotations, constraints_of({.optimizer_parallel = {level, 0}}))}),
                  want, 1e-4, r().weight_tolerance);
    }
}

TEST_P(References, random_plans_agree_with_one_device) {
  const int plans = testing::is_full() ? 10 : 2;
  const std::optional<Outcome> want = run_alone(r(), DType::f32);
  for (int devices : devices_here())
    for (int seed = 0; seed < plans; ++seed) {
      SCOPED_TRACE(fmt::format("{} devices, seed {}", devices, seed));
      expect_same(run_random(r(), DType::f32, devices, static_cast<std::uint64_t>(seed)), want, 1e-4,
                  r().weight_tolerance);
    }
}

TEST_P(References, in_f64_all_plans_agree_to_ten_digits) {
  const int plans = testing::is_full() ? 10 : 1;
  const std::optional<Outcome> want = run_alone(r(), DType::f64);
  const int devices = devices_here().back();
  for (Parallel mode : {Parallel::data_parallel, Parallel::auto_parallel})
    expect_same(run_planned(r(), DType::f64, {.devices = devices, .parallel = mode}), want, 1e-10, 1e-10);
  if (!r().annotations.empty() && devices == 8) {
    const Constraints seeds = parse_annotations(r().annotations, "annotations");
    expect_same(run_planned(r(), DType::f64, {.devices = devices, .constraints = seeds}), want, 1e-10, 1e-10);
  }
  for (int seed = 0; seed < plans; ++seed) {
    SCOPED_TRACE(fmt::format("{} devices, seed {}", devices, seed));
    expect_same(run_random(r(), DType::f64, devices, static_cast<std::uint64_t>(100 + seed)), want, 1e-10,
                1e-10);
  }
}

const OptimizerChoice ffn_optimizer{"momentum", {{"rate", 0.05}, {"momentum", 0.9}}};

const std::vector<Reference> references{
    Reference{
        .name = "ffn",
        .model = "ffn",
        .file = "ffn",
        .optimizer = ffn_optimizer,
        .annotations =
            R"({"dense1.matmul": {"in": [[2, 4], [4, 1]]}, "dense3.matmul": {"in": [[1, 8], [8, 1]]}})"},
    Reference{.name = "three_layer_mae",
              .model = "three_layer_mae",
              .file = "three_layer_mae",
              .optimizer = {"momentum", {{"rate", 0.01}, {"momentum", 0.1}}},
              .tolerance = 1e-4,
              // |x - y| has a kink: where x is within rounding of y, the order of a sum decides a sign.
              .weight_tolerance = 1e-3},
    Reference{.name = "three_layer",
              .model = "three_layer",
              .file = "three_layer_sgd",
              .optimizer = {"sgd", {{"rate", 0.05}}},
              .annotations = R"({"dense1.matmul": {"device_matrix": [2, 2, 2], "names": ["dp", "sp", "mp"],
                                       "in": [["mp", ["sp", "dp"]], [["sp", "dp"], "None"]]}, "relu1": {"in": [[4, 1]]},
                                     "dense2.matmul": {"device_matrix": [8], "names": ["tp"], "in": [["None", "tp"], ["tp", "None"]]},
                                     "relu2": {"in": [[8, 1]]}})"},
    Reference{.name = "matmul_chain",
              .model = "matmul_chain",
              .file = "matmul_chain",
              .optimizer = {"adam", {{"rate", 0.01}}}},
    Reference{.name = "matmul_chain_6",
              .model = "matmul_chain:batch=24,widths=48-96-24",
              .file = "",
              .optimizer = {"adam", {{"rate", 0.01}}},
              .devices = {3, 6}},
    Reference{.name = "dense_net",
              .model = "dense_net:batch=8,widths=64-16-32",
              .file = "",
              .optimizer = {"momentum", {{"rate", 0.01}, {"momentum", 0.9}}}},
    Reference{
        .name = "ffn_6", .model = "ffn:batch=48", .file = "", .optimizer = ffn_optimizer, .devices = {3, 6}}};

std::vector<Reference> references_where(bool (*applies)(const Reference&)) {
  std::vector<Reference> out;
  std::copy_if(references.begin(), references.end(), std::back_inserter(out), applies);
  return out;
}

const auto name_of_reference = [](const auto& test) { return test.param.name; };

INSTANTIATE_TEST_SUITE_P(EndToEnd, References, ::testing::ValuesIn(references), name_of_reference);
INSTANTIATE_TEST_SUITE_P(EndToEnd, ReferencesOfPyTorch,
                         ::testing::ValuesIn(references_where([](const Reference& r) {
                           return !r.file.empty();
                         })),
                         name_of_reference);
INSTANTIATE_TEST_SUITE_P(EndToEnd, ReferencesOfSeeds,
                         ::testing::ValuesIn(references_where([](const Reference& r) {
                           return !r.annotations.empty();
                         })),
                         name_of_reference);

// The split is real: what each device holds falls with the devices, and so does what moves.

TEST(Devices, sharded_weights_shrink_the_arena) {
  const Reference r{.name = "",
                    .model = "matmul_chain:batch=16,widths=512-512-512",
                    .file = "",
                    .optimizer = {"adam", {{"rate", 0.01}}}};
  const auto arena = [&](int n) {
    const std::string json = fmt::format(
        R"({{"matmul1": {{"in": [[1, 1], [1, {0}]]}}, "matmul2": {{"in": [[1, {0}], [{0}, 1]]}}}})", n);
    return run_planned(r, DType::f32,
                       {.devices = n, .constraints = parse_annotations(n > 1 ? json : "{}", "")})
        ->statistics.arena_bytes;
  };
  const std::int64_t one = arena(1);
  EXPECT_LT(arena(2), 0.6 * static_cast<double>(one));
  EXPECT_LT(arena(8), 0.2 * static_cast<double>(one));
}

TEST(Devices, data_parallel_moves_the_gradients_and_the_loss_and_nothing_else) {
  const Reference r{.name = "", .model = "ffn", .file = "", .optimizer = ffn_optimizer};
  const Outcome got = *run_planned(r, DType::f32, {.devices = 4, .parallel = Parallel::data_parallel});
  std::int64_t elements = 1;  // the loss
  for (const auto& [name, values] : got.weights) elements += static_cast<std::int64_t>(values.size());
  EXPECT_EQ(got.statistics.collectives_per_step, (std::map<std::string, int>{{"all_reduce", 11}}));
  EXPECT_NEAR(static_cast<double>(got.statistics.bytes_communicated_per_step),
              static_cast<double>(elements) * 4 * 2 * 3 / 4, 64);
}

}  // namespace
}  // namespace shardwright
