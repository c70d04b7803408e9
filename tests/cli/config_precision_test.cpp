#include "shardwright/exchange/mindformers/config_precision.h"

#include <gtest/gtest.h>

#include <fstream>

#include "shardwright/cli/asked.h"
#include "shardwright/cli/config.h"
#include "shardwright/exchange/mindformers/config_file.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

Config config(const std::string& yaml) {
  const std::string path = scratch_folder() + "/c.yaml";
  std::ofstream(path) << yaml;
  return load_config(path);
}

std::string said(const std::string& yaml, const std::string& flag) {
  for (const Config::Said& s : config(yaml).said)
    if (s.flag == flag) return s.text;
  return "";
}

TEST(ConfigPrecision, says_what_the_keys_say_together) {
  struct Case {
    const char *level, *compute, *parameters, *want;
  };
  for (const Case& c :
       {Case{"", "", "", ""}, Case{"O0", "", "", "f32"}, Case{"O1", "", "", "products-fp16"},
        Case{"O2", "", "", "fp16"}, Case{"O3", "", "", "pure-fp16"}, Case{"o2", "", "", "fp16"},
        Case{"O1", "bfloat16", "float32", "products-bf16"}, Case{"O2", "bfloat16", "", "bf16"},
        Case{"O2", "float16", "float32", "fp16"}, Case{"O3", "bfloat16", "bfloat16", "pure-bf16"},
        Case{"O0", "float32", "float32", "f32"}, Case{"", "float32", "", "f32"},
        Case{"", "", "float32", "f32"}, Case{"", "float16", "", "fp16"},
        Case{"", "bfloat16", "float32", "bf16"}, Case{"", "bfloat16", "bfloat16", "pure-bf16"},
        Case{"", "float16", "float16", "pure-fp16"}}) {
    const auto said = [](const char* key, std::string value) {
      return value.empty() ? std::nullopt : std::optional(PrecisionKeys::Said{key, std::move(value)});
    };
    const ConfigPrecision have = config_precision({.amp_level = said("amp_level", c.level),
                                                   .compute = said("compute_dtype", c.compute),
                                                   .parameters = said("param_init_type", c.parameters)});
    EXPECT_EQ(have.precision, c.want) << c.level << " " << c.compute << " " << c.parameters;
    EXPECT_TRUE(have.idle.empty());
  }
}

TEST(ConfigPrecision, is_read_where_model_suites_write_it) {
  const auto precision = [](const char* yaml) { return said(yaml, "--precision"); };
  EXPECT_EQ(precision("amp_level: O2\n"), "fp16");
  EXPECT_EQ(precision("runner_config: {amp_level: O3}\n"), "pure-fp16");
  EXPECT_EQ(precision("model: {model_config: {compute_dtype: 'bfloat16', param_init_type: 'float32'}}\n"),
            "bf16");
  EXPECT_EQ(precision("model: {model_config: {compute_dtype: bfloat16, param_init_dtype: bfloat16}}\n"),
            "pure-bf16");
  EXPECT_EQ(precision("model: {model_config: {num_layers: 2}}\n"), "");
  EXPECT_EQ(precision("model: llama\n"), "");
  EXPECT_EQ(said("parallel: {gradient_fp32_sync: False}\n", "--reduce-precision"), "short");
  EXPECT_EQ(said("parallel: {gradient_fp32_sync: True}\n", "--reduce-precision"), "f32");
}

TEST(ConfigPrecision, tells_what_is_computed_in_f32_anyway) {
  const auto idle = [](const char* keys) {
    return config(fmt::format("model: {{model_config: {{{}}}}}\n", keys)).notices;
  };
  EXPECT_TRUE(idle("softmax_compute_dtype: float32, layernorm_compute_type: float32").empty());
  EXPECT_EQ(idle("softmax_compute_dtype: float16, compute_dtype: float16"),
            (std::vector<std::string>{
                "model.model_config.softmax_compute_dtype float16 has no effect: it is computed "
                "in float32 always"}));
}

/// What the command line becomes.
Arguments given(const std::string& yaml, std::map<std::string, std::string> flags) {
  const std::string path = scratch_folder() + "/c.yaml";
  std::ofstream(path) << yaml;
  flags["--config"] = path;
  Arguments out;
  out.words = {"plan"};
  out.flags = std::move(flags);
  return with_config(std::move(out));
}

TEST(ConfigPrecision, is_weaker_than_flags) {
  const char* const yaml = "amp_level: O2\nparallel: {gradient_fp32_sync: False}\n";
  EXPECT_EQ(given(yaml, {}).text("--precision"), "fp16");
  EXPECT_EQ(given(yaml, {}).text("--reduce-precision"), "short");
  EXPECT_EQ(given(yaml, {{"--precision", "bf16"}, {"--reduce-precision", "f32"}}).text("--precision"),
            "bf16");
  EXPECT_EQ(given(yaml, {{"--precision", "bf16"}, {"--reduce-precision", "f32"}}).text("--reduce-precision"),
            "f32");
  EXPECT_FALSE(given("parallel: {gradient_fp32_sync: True}\n", {}).has("--reduce-precision"));
}

TEST(ConfigPrecision, scales_the_loss_where_gradients_are_f16) {
  const auto scale = [](const char* yaml) {
    return to_text(origin_of(given(yaml, {})).optimizer.loss_scale);
  };
  EXPECT_EQ(scale("amp_level: O0\n"), "none");
  EXPECT_EQ(scale("amp_level: O1\n"), "dynamic");
  EXPECT_EQ(scale("amp_level: O2\n"), "dynamic");
  EXPECT_EQ(scale("amp_level: O3\n"), "none");
  EXPECT_EQ(scale("model: {model_config: {compute_dtype: bfloat16}}\n"), "none");
}

TEST(ConfigPrecision, reads_how_the_loss_is_scaled) {
  const auto scale = [](const std::string& sense) {
    return to_text(origin_of(given("amp_level: O2\nrunner_wrapper: {type: MFTrainOneStepCell, scale_sense: " +
                                       sense + "}\n",
                                   {}))
                       .optimizer.loss_scale);
  };
  EXPECT_EQ(scale("1024"), "1024");
  EXPECT_EQ(scale("{type: FixedLossScaleUpdateCell, loss_scale_value: 128}"), "128");
  EXPECT_EQ(scale("{type: DynamicLossScaleUpdateCell, loss_scale_value: 65536, scale_window: 2000}"),
            "dynamic");
  EXPECT_EQ(
      scale("{type: DynamicLossScaleUpdateCell, loss_scale_value: 4096, scale_factor: 4, scale_window: 50}"),
      "4096 by 4 every 50");
  for (const char* wrong : {"0", "{type: Other, loss_scale_value: 1}", "{type: FixedLossScaleUpdateCell}",
                            "{type: DynamicLossScaleUpdateCell, loss_scale_value: 8, scale_factor: 1}",
                            "{type: DynamicLossScaleUpdateCell, loss_scale_value: 8, window: 3}"})
    EXPECT_THROW(scale(wrong), Error) << wrong;
}

}  // namespace
}  // namespace shardwright
