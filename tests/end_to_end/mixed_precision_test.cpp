// Mixed precision: losses of PyTorch's autocast and of a loop in numpy (tests/reference/make_mixed.py), and plans that
// change them by roundings only. Combinations of what a plan may say are in combinations_test.cpp.
// SHARDWRIGHT_FULL=1 draws ten plans of each kind instead of one.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "shardwright/runtime/safetensors.h"
#include "tests/support/draws.h"
#include "tests/support/on_each_rank.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::Outcome;
using testing::TrainingRun;

const Precision bf16 = Precision::mixed(DType::bf16);
const Precision fp16 = Precision::mixed(DType::f16);

std::vector<double> reference(const std::string& name) {
  static const SafetensorsFile file = SafetensorsFile::open(testing::path_of_reference("mixed"));
  return to_doubles(file.read(name));
}

// ---- losses from outside ----

const std::map<std::string, std::string> models{
    {"ffn", "ffn"},
    {"llama", "llama:layers=4,hidden=32,heads=8,kv_heads=4,ffn=48,vocab=64,seq=16,batch=8"},
    {"gpt", "gpt:layers=2,hidden=32,heads=8,vocab=64,seq=16,batch=8"}};

const std::vector<OptimizerChoice> optimizers{{"sgd", {{"rate", 0.05}}},
                                              {"momentum", {{"rate", 0.02}, {"momentum", 0.9}}},
                                              {"adam", {{"rate", 0.0002}}},
                                              {"adamw", {{"rate", 0.0002}, {"weight_decay", 0.1}}}};

void expect_near(const std::vector<double>& have, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(have.size(), want.size());
  double most = 0;
  for (std::size_t s = 0; s < want.size(); ++s) {
    EXPECT_NEAR(have[s], want[s], tolerance * std::abs(want[s])) << "step " << s;
    most = std::max(most, std::abs(have[s] / want[s] - 1));
  }
  ::testing::Test::RecordProperty("largest_difference", fmt::format("{:.2e}", most));
}

class MixedReferences : public ::testing::TestWithParam<std::tuple<std::string, OptimizerChoice>> {};

TEST_P(MixedReferences, losses_are_those_of_autocast) {
  const auto& [network, optimizer] = GetParam();
  const TrainingRun run{models.at(network), network, optimizer, bf16, 20};
  const auto have = testing::run_alone(run);
  if (!have) return;  // another process has it
  // What it learns in 20 steps is many times the tolerance.
  EXPECT_LT(have->losses.back(), (1 - 1e-2) * have->losses.front());
  expect_near(have->losses, reference(fmt::format("{}.{}", network, optimizer.name)), 3e-3);
  // The loop rounds where we do.
  if (network == "ffn") expect_near(have->losses, reference("numpy." + optimizer.name), 5e-4);
}

const auto name_of_reference = [](const auto& test) {
  return std::get<0>(test.param) + "_" + std::get<1>(test.param).name;
};
INSTANTIATE_TEST_SUITE_P(EndToEnd, MixedReferences,
                         ::testing::Combine(::testing::Values("ffn", "llama", "gpt"),
                                            ::testing::ValuesIn(optimizers)),
                         name_of_reference);

/// |a - b| / |b| over all elements of all of them.
double distance(const std::map<std::string, std::vector<double>>& a,
                const std::map<std::string, std::vector<double>>& b) {
  double apart = 0, whole = 0;
  for (const auto& [name, values] : b)
    for (std::size_t i = 0; i < values.size(); ++i) {
      apart += std::pow(a.at(name).at(i) - values[i], 2);
      whole += values[i] * values[i];
    }
  return std::sqrt(apart / whole);
}

// In bf16 the gradients of its first layers are off by a third, whoever computes them: so ours must be as near to
// those in f32 as autocast's are.
TEST(EndToEndMixedResNet, first_loss_and_gradients_are_as_near_as_those_of_autocast) {
  constexpr double rate = 1;
  TrainingRun run{.model = "resnet18:image=64,width=8,batch=32",
                  .file = "",
                  .optimizer = {"sgd", {{"rate", rate}}},
                  .precision = bf16,
                  .steps = 1};
  const auto after = testing::run_alone(run);
  run.optimizer.attributes.set("rate", 0.0);
  const auto before = testing::run_alone(run);
  if (!before || !after) return;  // another process has it
  expect_near(after->losses, reference("resnet18.loss"), 2e-3);
  std::map<std::string, std::vector<double>> ours, theirs, whole;
  for (const std::string& name : SafetensorsFile::open(testing::path_of_reference("mixed")).names()) {
    const std::string prefix = "resnet18.gradient.";
    if (!name.starts_with(prefix)) continue;
    const std::string weight = name.substr(prefix.size());
    theirs[weight] = reference(name);
    whole[weight] = reference("f32." + name);
    std::vector<double>& gradient = ours[weight];
    for (std::size_t i = 0; i < theirs[weight].size(); ++i)
      gradient.push_back((before->weights.at(weight)[i] - after->weights.at(weight)[i]) / rate);
    const auto one = [&](const auto& all) {
      return std::map<std::string, std::vector<double>>{*all.find(weight)};
    };
    const double ours_apart = distance(one(ours), one(whole)),
                 theirs_apart = distance(one(theirs), one(whole));
    EXPECT_LE(ours_apart, 2 * theirs_apart + 0.02) << weight;
  }
  EXPECT_EQ(ours.size(), 55U);
  EXPECT_LE(distance(ours, whole), 1.2 * distance(theirs, whole));
  EXPECT_LE(distance(ours, theirs), 0.3);
  RecordProperty("from_f32", fmt::format("{:.3f}", distance(ours, whole)));
  RecordProperty("from_autocast", fmt::format("{:.3f}", distance(ours, theirs)));
  RecordProperty("autocast_from_f32", fmt::format("{:.3f}", distance(theirs, whole)));
}

// ---- plans ----

struct Network {
  std::string name, model;
  OptimizerChoice optimizer;
};
void PrintTo(const Network& n, std::ostream* out) { *out << n.name; }

const std::vector<Network> networks{
    {"ffn", "ffn:batch=32,widths=48-32-32-24-16", {"adamw", {{"rate", 0.001}}}},
    {"llama",
     "llama:layers=2,hidden=16,heads=8,kv_heads=4,ffn=24,vocab=32,seq=8,batch=32",
     {"adam", {{"rate", 0.001}}, 1.0}},
    {"gpt_tied",
     "gpt:layers=2,hidden=16,heads=8,vocab=32,seq=8,batch=32",
     {"momentum", {{"rate", 0.02}, {"momentum", 0.9}}, 0.5}}};

class MixedPlans : public ::testing::TestWithParam<std::tuple<Network, bool>> {
 protected:
  TrainingRun run() const {
    const auto& [network, is_fp16] = GetParam();
    return {network.model, "", network.optimizer, is_fp16 ? fp16 : bf16, 10};
  }
  /// As many as there can be here.
  static std::vector<int> devices_here() {
    std::vector<int> out{2, 4, 8};
    std::erase_if(out, [](int n) { return n > most_ranks(); });
    return out;
  }
  /// What only noise moves, such as the bias of keys, differs from plan to plan.
  static constexpr testing::Tolerance tolerance{.losses = 1e-3, .weights = 1};
};

TEST_P(MixedPlans, planned_ones_agree_with_one_device) {
  const auto want = testing::run_alone(run());
  for (const int devices : devices_here())
    for (const Parallel mode : {Parallel::data_parallel, Parallel::auto_parallel}) {
      const int level = devices == 2 ? 3 : devices == 4 ? 2 : 1;
      SCOPED_TRACE(fmt::format("{} on {} devices, level {}", name_of(mode), devices, level));
      testing::expect_same(
          testing::run_planned(
              run(),
              {.devices = devices,
               .parallel = mode,
               .constraints = constraints_of(
                   {.optimizer_parallel = {level, 0},
                    .recompute = parse_recompute(mode == Parallel::data_parallel ? "full" : "selected")})}),
          want, tolerance);
    }
}

TEST_P(MixedPlans, drawn_ones_agree_with_one_device) {
  const std::uint64_t plans = testing::is_full() ? 10 : 1;
  const auto want = testing::run_alone(run());
  for (const int devices : devices_here())
    for (std::uint64_t seed = testing::further_seeds(), end = seed + plans; seed < end; ++seed) {
      SCOPED_TRACE(fmt::format("{} devices, seed {}", devices, seed));
      testing::expect_same(testing::run_random(run(), devices, seed), want, tolerance);
      testing::expect_same(testing::run_random_pipeline(run(), devices, 4, seed), want, tolerance);
    }
}

// Gradients that travel short are rounded once more on each device.
TEST_P(MixedPlans, gradients_reduced_short_agree_with_one_device) {
  const auto want = testing::run_alone(run());
  TrainingRun is_short = run();
  is_short.optimizer.reduces_short = true;
  const int devices = devices_here().back();
  for (const int level : {0, 2})
    testing::expect_same(
        testing::run_planned(is_short, {.devices = devices,
                                        .parallel = Parallel::data_parallel,
                                        .constraints = constraints_of({.optimizer_parallel = {level, 0}})}),
        want, tolerance);
}

// Micro-batches are added up where they are computed; what crosses is one sum, and all activations as ever.
TEST(EndToEndMixedPipelines, the_gradient_of_a_shared_weight_crosses_stages_once_a_step) {
  const auto bytes = [](const Precision& precision, int micro_batches) {
    const TrainingRun run{networks.back().model, "", networks.back().optimizer, precision, 1};
    const auto out = testing::run_planned(
        run, {.devices = 2,
              .parallel = Parallel::data_parallel,
              .constraints =
                  constraints_of({.pipelining = {Schedule::one_forward_one_backward(), 2, micro_batches}})});
    return out ? out->statistics.bytes_communicated_per_step : 0;
  };
  for (const Precision& precision : {Precision(DType::f32), bf16})
    EXPECT_NEAR(bytes(precision, 8), bytes(precision, 2), 16) << to_text(precision);  // scalars
}

// The last stage reduces its own gradients in the backward, so that nothing in its update is put in order: the shared
// gradient goes out in front of the norm that the first stage answers with.
TEST(EndToEndMixedPipelines, a_shared_gradient_is_sent_before_the_norm_of_all_is_waited_for) {
  const TrainingRun run{networks.back().model, "", networks.back().optimizer, bf16, 1};
  constexpr std::uint64_t seed = 1040143944;
  testing::expect_same(testing::run_random_pipeline(run, 8, 4, seed), testing::run_alone(run),
                       {.losses = 0.01, .weights = 0.1});
}

INSTANTIATE_TEST_SUITE_P(EndToEnd, MixedPlans,
                         ::testing::Combine(::testing::ValuesIn(networks), ::testing::Bool()),
                         [](const auto& test) {
                           return std::get<0>(test.param).name +
                                  (std::get<1>(test.param) ? "_fp16" : "_bf16");
                         });

}  // namespace
}  // namespace shardwright
