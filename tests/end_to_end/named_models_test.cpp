// Encoders and the U-Net by name: whatever the plan, the losses of one device, in f64.

#include <gtest/gtest.h>

#include <iostream>

#include "tests/support/training_run.h"

namespace shardwright {
namespace {

class NamedModels : public ::testing::TestWithParam<const char*> {
 protected:
  testing::TrainingRun run() const {
    return {.model = GetParam(),
            .file = "",
            .optimizer = {"momentum", {{"rate", 0.05}}},
            .precision = DType::f64,
            .steps = 4};
  }
};

TEST_P(NamedModels, train_alike_on_any_devices) {
  const auto want = testing::run_alone(run());
  EXPECT_NE(want->losses.back(), want->losses.front());
  for (int devices : {2, 4}) {
    SCOPED_TRACE(devices);
    for (Parallel mode : {Parallel::data_parallel, Parallel::auto_parallel})
      testing::expect_same(testing::run_planned(run(), {.devices = devices, .parallel = mode}), want,
                           {.losses = 1e-11, .weights = 1e-9});
    testing::expect_same(testing::run_random(run(), devices, 1), want, {.losses = 1e-11, .weights = 1e-9});
  }
}

INSTANTIATE_TEST_SUITE_P(
    EndToEnd, NamedModels,
    ::testing::Values("bert-base:layers=2,hidden=16,heads=4,seq=8,vocab=64,batch=4",
                      "vit:layers=2,hidden=16,heads=4,image=16,patch=8,classes=5,batch=4",
                      "unet:image=16,depth=2,width=4,batch=4"));

}  // namespace
}  // namespace shardwright
