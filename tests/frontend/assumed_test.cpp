// What nobody says of a network is as people train on such a machine.

#include "shardwright/frontend/assumed.h"

#include <gtest/gtest.h>

#include "shardwright/cost/cluster_file.h"

namespace shardwright {
namespace {

struct UsualCase {
  std::string name, spec, cluster, precision, optimizer;
  std::optional<std::int64_t> batch;
  bool scales = false;  // the loss
};
void PrintTo(const UsualCase& c, std::ostream* out) { *out << c.name; }

class Usual : public ::testing::TestWithParam<UsualCase> {};

TEST_P(Usual, origin) {
  const UsualCase& c = GetParam();
  const Origin usual = usual_origin(c.spec, cluster_called(c.cluster));
  EXPECT_EQ(to_text(usual.precision), c.precision);
  EXPECT_EQ(usual.optimizer.name, c.optimizer);
  EXPECT_EQ(usual.global_batch, c.batch);
  EXPECT_EQ(usual.optimizer.loss_scale.is_on(), c.scales);
}

// Touvron et al., 2023: 4 million tokens a step, in sequences of 4096. He et al., 2016: 256 images.
INSTANTIATE_TEST_SUITE_P(
    frontend, Usual,
    ::testing::Values(UsualCase{"host", "llama2-7b", "cpu:8", "f32", "sgd", std::nullopt},
                      UsualCase{"a100", "llama2-7b", "a100-80g:8", "bf16", "adamw", 1024},
                      UsualCase{"longer", "llama2-70b:layers=2", "h100:2x8", "bf16", "adamw", 1024},
                      UsualCase{"of_other_length", "llama2-70b:seq=8192", "h100:8", "bf16", "adamw", 512},
                      UsualCase{"batch_said", "llama2-7b:batch=3", "a100-80g:8", "bf16", "adamw",
                                std::nullopt},
                      UsualCase{"images", "resnet50", "h100:8", "bf16", "adamw", 256},
                      UsualCase{"unpublished", "ffn", "h100:8", "bf16", "adamw", std::nullopt},
                      UsualCase{"file", "net.onnx", "h100:8", "bf16", "adamw", std::nullopt},
                      UsualCase{"no_bf16", "llama2-7b", "v100-32g:8", "fp16", "adamw", 1024, true},
                      UsualCase{"ascend", "qwen-7b", "ascend910b:8", "bf16", "adamw", 512}),
    [](const auto& c) { return c.param.name; });

TEST(UsualOrigin, is_that_of_the_preset_where_a_file_says_the_same) {
  for (const char* name : {"a100-80g:8", "v100-32g:8", "cpu:4"}) {
    const Cluster preset = cluster_called(name);
    const Cluster same = parse_cluster(to_text(preset), "mine.yaml");
    EXPECT_EQ(usual_origin("ffn", same).precision, usual_origin("ffn", preset).precision) << name;
  }
}

TEST(UsualOrigin, is_plain_without_a_cluster) {
  const Origin usual = usual_origin("llama2-7b", std::nullopt);
  EXPECT_EQ(usual.precision, Precision());
  EXPECT_EQ(usual.optimizer.name, "sgd");
}

}  // namespace
}  // namespace shardwright
