// Convolution and pooling of every geometry, split at random: the steps of one device. Where a stride is longer than the
// window, there are inputs that nobody reads.

#include <gtest/gtest.h>

#include "shardwright/base/random.h"
#include "tests/support/scratch.h"
#include "tests/support/training_run.h"

namespace shardwright::testing {
namespace {

struct Geometry {
  std::int64_t size, kernel, stride, dilation, before, after;
};

/// One whose window fits and whose outputs can be split.
Geometry drawn(const RandomStream& random, std::uint64_t& next) {
  const auto below = [&](std::int64_t n) { return random.below(next++, n); };
  for (;;) {
    Geometry g{
        .size = 6 * (1 + below(4)), .kernel = 1 + below(3), .stride = 1 + below(7), .dilation = 1 + below(2)};
    const std::int64_t reach = (g.kernel - 1) * g.dilation;
    g.before = below(reach + 1);
    g.after = below(reach + 1);
    const std::int64_t out = (g.size + g.before + g.after - reach - 1) / g.stride + 1;
    if (g.size + g.before + g.after > reach && (out % 2 == 0 || out % 3 == 0)) return g;
  }
}

std::string graph_of(const std::string& op, const Geometry& h, const Geometry& w) {
  std::string attributes =
      fmt::format("strides=[{}, {}], dilations=[{}, {}], pads=[{}, {}, {}, {}]", h.stride, w.stride,
                  h.dilation, w.dilation, h.before, w.before, h.after, w.after);
  if (op != "conv2d") attributes += fmt::format(", kernel=[{}, {}]", h.kernel, w.kernel);
  std::string text =
      fmt::format("%x = input f64[2, 2, {}, {}]\n%shift = param f64[2, {}, {}] (init=normal)\n", h.size,
                  w.size, h.size, w.size);
  text += "%shifted = add %x, %shift\n";
  if (op == "conv2d")
    text +=
        fmt::format("%weight = param f64[4, 2, {}, {}] (init=normal)\n%y = conv2d %shifted, %weight ({})\n",
                    h.kernel, w.kernel, attributes);
  else
    text += fmt::format("%y = {} %shifted ({})\n", op, attributes);
  return text + "%squares = square %y\n%loss = reduce_mean %squares\noutput %loss\n";
}

class Windows : public ::testing::TestWithParam<const char*> {};

TEST_P(Windows, split_at_random_give_the_steps_of_one_device) {
  const std::string path = scratch_folder() + "/windows.graph";
  const RandomStream random(1, GetParam());
  std::uint64_t next = 0;
  for (int i = 0; i < 24; ++i) {
    const Geometry h = drawn(random, next), w = drawn(random, next);
    const std::string text = graph_of(GetParam(), h, w);
    SCOPED_TRACE(text);
    write_bytes(path, text);
    const TrainingRun run{.model = path, .file = {}, .optimizer = {"sgd", {{"rate", 0.1}}}, .steps = 2};
    const auto want = run_alone(run);
    for (int devices : {2, 3, 4, 6})
      expect_same(run_random(run, devices, static_cast<std::uint64_t>(i)), want,
                  {.losses = 1e-12, .weights = 1e-12});
  }
}

INSTANTIATE_TEST_SUITE_P(EndToEnd, Windows, ::testing::Values("conv2d", "max_pool2d", "avg_pool2d"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace shardwright::testing
