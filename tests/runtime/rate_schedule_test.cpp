#include "shardwright/runtime/rate_schedule.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// What PyTorch 1.13's schedulers (tests' comments name them) say of a rate of 0.1.
void expect_rates(const std::string& text, const std::vector<double>& want, const std::string& warmup = "") {
  const RateSchedule schedule(text, warmup, 0.1, {.steps = 10, .steps_per_epoch = 3});
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(schedule.at(static_cast<std::int64_t>(i)), want[i], 1e-9) << text << " at " << i;
}

TEST(RateSchedule, is_that_of_pytorch) {
  const std::vector<double> steps{0.1,   0.1,   0.1,   0.05,   0.05,   0.05,
                                  0.025, 0.025, 0.025, 0.0125, 0.0125, 0.0125};
  expect_rates("step:every=3,factor=0.5", steps);  // StepLR(3, 0.5)
  expect_rates("step:factor=0.5,every=1epoch", steps);
  expect_rates("exponential:factor=0.9",
               {0.1, 0.09, 0.081, 0.0729, 0.06561, 0.059049, 0.0531441});  // ExponentialLR(0.9)
  expect_rates("cosine:end=0.01",                                          // CosineAnnealingLR(10, 0.01)
               {0.1, 0.09779754323, 0.09140576475, 0.08145033635, 0.06890576475, 0.055, 0.04109423525,
                0.02854966365, 0.01859423525, 0.01220245677, 0.01});
  expect_rates("linear:end=0.02",
               {0.1, 0.092, 0.084, 0.076, 0.068, 0.06, 0.052, 0.044, 0.036, 0.028, 0.02, 0.02});
  expect_rates("polynomial", {0.1, 0.081, 0.064, 0.049, 0.036, 0.025, 0.016, 0.009, 0.004, 0.001, 0, 0});
  expect_rates("polynomial:power=1,end=0.02", {0.1, 0.092, 0.084});
  expect_rates("constant", {0.1, 0.1});
}

TEST(RateSchedule, grows_first) {
  expect_rates("constant", {0.025, 0.05, 0.075, 0.1, 0.1, 0.1}, "4");
  // Behind three steps of an epoch linear has seven left.
  expect_rates("linear",
               {0.1 / 3, 0.2 / 3, 0.1, 0.1, 0.6 / 7, 0.5 / 7, 0.4 / 7, 0.3 / 7, 0.2 / 7, 0.1 / 7, 0},
               "1epoch");
  EXPECT_FALSE(RateSchedule("constant", "4", 1, {.steps = 10}).is_constant());
  EXPECT_TRUE(RateSchedule("constant", "", 1, {.steps = 10}).is_constant());
}

TEST(RateSchedule, tells_what_is_wrong) {
  const auto message_of = [](const std::string& text, const std::string& warmup = "") {
    return error_of([&] { RateSchedule(text, warmup, 0.1, {.steps = 10}); });
  };
  EXPECT_EQ(message_of("cosin"),
            "learning rate schedule 'cosin' is unknown (did you mean cosine?); there are constant, step, "
            "exponential, "
            "cosine, "
            "linear, polynomial");
  EXPECT_EQ(message_of("cosine:every=3"), "learning rate schedule cosine: does not take 'every=3'");
  EXPECT_EQ(message_of("constant:end=3"), "learning rate schedule constant: does not take 'end=3'");
  EXPECT_EQ(message_of("step"), "learning rate schedule step: say how often, as in step:every=100");
  EXPECT_EQ(message_of("exponential"),
            "learning rate schedule exponential: say by what, as in exponential:factor=0.99");
  EXPECT_EQ(message_of("linear:end=-1"), "learning rate schedule: end should be a number from 0 on, not -1");
  EXPECT_EQ(message_of("step:every=0"),
            "every 0: should be a number of steps from 1 on, or as in 3epochs or 5%");
  EXPECT_EQ(message_of("step:every=9999999999999999999"),
            "every 9999999999999999999: should be a number of steps from 1 on, or as in 3epochs or 5%");
  EXPECT_EQ(message_of("constant", "2epochs"), "warmup 2epochs: the data have no epochs; give steps");
}

}  // namespace
}  // namespace shardwright
