// Residual networks in f64: PyTorch's losses on one device, and those of one device under every way of splitting:
// data parallel, channels, rows by halo exchange, and plans drawn at random. The narrow ResNet-18 runs always, the whole
// ResNet-50 at 64x64 with the label slow. SHARDWRIGHT_FULL=1 draws ten plans for each number of devices instead of three.

#include <gtest/gtest.h>

#include <cstdlib>

#include "shardwright/runtime/safetensors.h"
#include "tests/support/draws.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::Outcome;
using testing::TrainingRun;

const TrainingRun resnet18{.model = "resnet18:image=32,width=8,batch=8",
                           .file = "resnet18",
                           .optimizer = {"momentum", {{"rate", 0.02}, {"momentum", 0.9}}},
                           .precision = DType::f64};
const TrainingRun resnet50{.model = "resnet50:image=64,batch=8",
                           .file = "resnet50",
                           .optimizer = {"momentum", {{"rate", 0.0001}, {"momentum", 0.9}}},
                           .precision = DType::f64};

/// Channels of the layers split in turn: outputs over the devices, then inputs, as the weights of a decoder are.
Constraints by_channels(const TrainingRun& run, int devices) {
  const Model model = build_model(run.model);
  std::string json;
  bool splits_outputs = true;
  for (const Node& node : model.graph.nodes) {
    const std::string& name = model.graph.value(node.results.front()).name;
    if (!name.ends_with("conv2d") || name == "conv1.conv2d") continue;
    json +=
        fmt::format(R"({}"{}": {{"in": [[1, {}, 1, 1], [{}, {}, 1, 1]]}})", json.empty() ? "" : ", ", name,
                    splits_outputs ? 1 : devices, splits_outputs ? devices : 1, splits_outputs ? 1 : devices);
    splits_outputs = !splits_outputs;
  }
  return parse_annotations("{" + json + "}", "channels");
}

/// The first layers' rows split: their convolutions and pooling exchange halos.
Constraints by_rows(int devices) {
  const std::string images = fmt::format("[[1, 1, {}, 1], [1, 1, 1, 1]]", devices);
  return parse_annotations(
      fmt::format(R"({{"conv1.conv2d": {{"in": {0}}}, "maxpool": {{"in": [[1, 1, {1}, 1]]}},
                       "layer1.0.conv2.conv2d": {{"in": {0}}}, "layer1.1.conv2.conv2d": {{"in": {0}}}}})",
                  images, devices),
      "rows");
}

void expect_reference(const TrainingRun& run) {
  const auto alone = testing::run_alone(run);
  testing::expect_losses_of_reference(*alone, run, 1e-7);
  const SafetensorsFile file = SafetensorsFile::open(testing::path_of_reference(run.file));
  for (const std::string& name : file.names())
    if (name.starts_with("final.")) {
      EXPECT_LE(testing::difference(alone->weights.at(name.substr(6)), to_doubles(file.read(name))), 1e-7)
          << name;
    }
  TrainingRun single = run;
  single.precision = DType::f32;
  const double want = to_doubles(file.read("loss")).front();
  EXPECT_NEAR(testing::run_alone(single)->losses.front(), want, 1e-5 * want);
}

struct Case {
  std::string name;
  TrainingRun run;
  int devices;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ResNet : public ::testing::TestWithParam<Case> {};

TEST_P(ResNet, losses_do_not_depend_on_the_plan) {
  const auto& [name, run, devices] = GetParam();
  const std::uint64_t plans = testing::is_full() ? 10 : 3;
  const auto alone = testing::run_alone(run);
  const testing::Tolerance tolerance{.losses = 1e-9, .weights = 1e-7};
  const auto expect_planned = [&](const char* what, Parallel mode, const Constraints& annotations) {
    SCOPED_TRACE(what);
    testing::expect_same(
        testing::run_planned(run, {.devices = devices, .parallel = mode, .constraints = annotations}), alone,
        tolerance);
  };
  expect_planned("data parallel", Parallel::data_parallel, {});
  expect_planned("channels", Parallel::auto_parallel, by_channels(run, devices));
  expect_planned("rows", Parallel::semi_auto_parallel, by_rows(devices));
  for (std::uint64_t seed = 0; seed < plans; ++seed) {
    SCOPED_TRACE(fmt::format("random plan {}", seed));
    testing::expect_same(testing::run_random(run, devices, seed), alone, tolerance);
  }
}

std::vector<Case> on_devices(const std::string& name, const TrainingRun& run) {
  std::vector<Case> cases;
  for (const int devices : {2, 4, 8}) cases.push_back({fmt::format("{}_{}", name, devices), run, devices});
  return cases;
}

const auto name_of_case = [](const auto& test) { return test.param.name; };

INSTANTIATE_TEST_SUITE_P(EndToEnd, ResNet, ::testing::ValuesIn(on_devices("resnet18", resnet18)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Slow, ResNet, ::testing::ValuesIn(on_devices("resnet50", resnet50)), name_of_case);

TEST(EndToEndResNet18, losses_are_pytorchs) { expect_reference(resnet18); }
TEST(SlowResNet50, losses_are_pytorchs) { expect_reference(resnet50); }

}  // namespace
}  // namespace shardwright
