// Activations of a transformer layer by the formulas of Korthikanti et al. (2022), for which published runs were planned:
// bytes of 16-bit activations with sequence s, micro-batch b, width h, heads a, over t devices,
//
//   none          sbh (8 + 24/t + 2as/ht)            with the sequence split    sbh/t (32 + 2as/h)
//   full          2 sbh                              selected: no term of the scores
//
// The paper's 10, 34 and 5as/h count masks of dropout and what it makes, which these networks do not have.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/cli/verb.h"

namespace shardwright {
namespace {

struct Layer {
  double s = 2048, b = 4, h = 1024, a = 8;
  int t = 1;
  std::string set = "";
  std::string attention = "explicit";
};

double activations(const Layer& layer, int layers) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  const int status = run_command(
      {"estimate",
       fmt::format("gpt:layers={},hidden={},heads={},vocab=64,seq={}", layers, layer.h, layer.a, layer.s),
       "--cluster", "a100-80g", "--set",
       fmt::format("tp={},micro_batch={},global_batch={}{}", layer.t, layer.b, layer.b, layer.set),
       "--precision", "fp16", "--attention", layer.attention, "--json"},
      terminal);
  EXPECT_EQ(status, 0) << err.str();
  return nlohmann::json::parse(out.str())["memory_bytes"]["activations"];
}

/// Of one layer, in units of sbh: what one more adds.
double of_a_layer(const Layer& layer) {
  return (activations(layer, 4) - activations(layer, 2)) / 2 / (layer.s * layer.b * layer.h);
}

TEST(Activations, of_a_layer_are_as_in_the_formula) {
  for (const int t : {1, 2, 8}) {
    const double scores = 2 * 8.0 * 2048 / 1024;  // 2as/h
    EXPECT_NEAR(of_a_layer({.t = t}), 8 + 24.0 / t + scores / t, 0.5) << t;
    if (t == 1) continue;
    // Of 2 devices one value more is kept whole: it is half of it.
    const double formula = (32 + scores) / t;
    EXPECT_NEAR(of_a_layer({.t = t, .set = ",sequence_parallel=1"}), formula, 0.07 * formula) << t;
  }
}

TEST(Activations, of_a_layer_with_flash_attention_have_no_scores) {
  EXPECT_NEAR(of_a_layer({.attention = "flash"}), 34,
              0.5);  // and its result, of which the next product reads a copy
  EXPECT_NEAR(of_a_layer({.s = 4096, .attention = "flash"}), 34, 0.5);
}

TEST(Activations, of_a_layer_that_recomputes_what_is_selected_have_no_scores) {
  const double once = of_a_layer({.t = 2, .set = ",recompute=selected"});
  EXPECT_LE(once, 8 + 24.0 / 2);
  EXPECT_NEAR(of_a_layer({.s = 4096, .t = 2, .set = ",recompute=selected"}), once, 0.1);
}

TEST(Activations, of_a_layer_that_is_recomputed_are_what_it_reads) {
  EXPECT_NEAR(of_a_layer({.b = 16, .h = 256, .set = ",recompute=full"}), 2, 0.05);
  EXPECT_NEAR(of_a_layer({.b = 16, .h = 256, .t = 2, .set = ",recompute=full"}), 2, 0.05);
}

}  // namespace
}  // namespace shardwright
