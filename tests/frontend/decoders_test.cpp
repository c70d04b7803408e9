// Decoder models: published parameter counts, what a token costs, names, and that every member trains.

#include <gtest/gtest.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/graph/op.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

nlohmann::json summary(const std::string& model) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  EXPECT_EQ(run_command({"show", model, "--summary", "--json"}, terminal), 0) << err.str();
  return nlohmann::json::parse(out.str());
}

struct Published {
  std::string model;
  std::int64_t parameters = 0;
  double layers = 0, hidden = 0, sequence = 0;
};
void PrintTo(const Published& p, std::ostream* out) { *out << p.model; }

class PublishedModels : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedModels, have_their_parameters_and_six_flops_for_each_and_attention) {
  const Published& p = GetParam();
  const nlohmann::json s = summary(p.model);
  EXPECT_EQ(s.at("parameters"), p.parameters);
  // q k^T and p v are 2 multiplications and additions of 4 a position, head and feature; backward twice as many.
  const double want = 6 * static_cast<double>(p.parameters) + 12 * p.layers * p.hidden * p.sequence;
  EXPECT_NEAR(s.at("flops_per_token"), want, 1e-3 * want);  // the loss counts, too
}

INSTANTIATE_TEST_SUITE_P(, PublishedModels,
                         ::testing::Values(Published{"llama2-7b", 6738415616, 32, 4096, 4096},
                                           Published{"llama2-13b", 13015864320, 40, 5120, 4096},
                                           Published{"llama2-70b", 68976648192, 80, 8192, 4096},
                                           Published{"baichuan2-7b", 7505973248, 32, 4096, 4096},
                                           Published{"baichuan2-13b", 13896668160, 40, 5120, 4096},
                                           Published{"qwen-7b", 7721324544, 32, 4096, 8192},
                                           Published{"qwen-14b", 14167290880, 40, 5120, 8192},
                                           // as their papers' layers, widths and vocabulary add up
                                           Published{"pangualpha-2.6b", 2625295360, 32, 2560, 1024},
                                           Published{"pangualpha-13b", 12800870400, 40, 5120, 1024},
                                           Published{"gpt:layers=12,hidden=768,heads=12,vocab=50257,seq=1024",
                                                     124439808, 12, 768, 1024}));  // GPT-2

TEST(DecoderModels, keys_override_a_members_sizes) {
  const std::int64_t layer = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * std::int64_t{8192} * 28672 + 2 * 8192;
  EXPECT_EQ(summary("llama2-70b:layers=81").at("parameters"), 68976648192 + layer);
  EXPECT_EQ(summary("llama2-7b:seq=128,batch=2").at("tokens"), 256);
}

std::vector<std::string> parameter_names(const std::string& model) {
  std::vector<std::string> out;
  const Graph graph = build_model(model).graph;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::parameter) out.push_back(graph.value(node.results[0]).name);
  return out;
}

TEST(DecoderModels, parameters_are_named_alike_in_all_families) {
  EXPECT_EQ(parameter_names("llama:layers=1"),
            (std::vector<std::string>{
                "embedding.weight", "layers.0.norm1.weight", "layers.0.attention.q.weight",
                "layers.0.attention.k.weight", "layers.0.attention.v.weight", "layers.0.attention.o.weight",
                "layers.0.norm2.weight", "layers.0.ffn.gate.weight", "layers.0.ffn.up.weight",
                "layers.0.ffn.down.weight", "norm.weight", "head.weight"}));
  EXPECT_EQ(parameter_names("gpt:layers=1"), (std::vector<std::string>{"embedding.weight",
                                                                       "positions.weight",
                                                                       "layers.0.norm1.weight",
                                                                       "layers.0.norm1.bias",
                                                                       "layers.0.attention.q.weight",
                                                                       "layers.0.attention.q.bias",
                                                                       "layers.0.attention.k.weight",
                                                                       "layers.0.attention.k.bias",
                                                                       "layers.0.attention.v.weight",
                                                                       "layers.0.attention.v.bias",
                                                                       "layers.0.attention.o.weight",
                                                                       "layers.0.attention.o.bias",
                                                                       "layers.0.norm2.weight",
                                                                       "layers.0.norm2.bias",
                                                                       "layers.0.ffn.up.weight",
                                                                       "layers.0.ffn.up.bias",
                                                                       "layers.0.ffn.down.weight",
                                                                       "layers.0.ffn.down.bias",
                                                                       "norm.weight",
                                                                       "norm.bias"}));
}

// Members of families at sizes at which they can be run: data parallel gives the losses of one device.
class SmallDecoders : public ::testing::TestWithParam<std::string> {};

TEST_P(SmallDecoders, train_alike_on_one_device_and_on_two) {
  const testing::TrainingRun run{
      .model = GetParam() + ":layers=2,hidden=16,heads=4,ffn=16,vocab=16,seq=8,batch=4",
      .file = "",
      // No adam: the bias of keys changes no loss, and adam makes what rounding leaves of its gradient large.
      .optimizer = {"momentum", {{"rate", 0.2}, {"momentum", 0.5}}},
      .precision = DType::f64,
      .steps = 30};
  const auto alone = testing::run_alone(run);
  testing::expect_same(testing::run_planned(run, {.devices = 2, .parallel = Parallel::data_parallel}), alone,
                       {.losses = 1e-9, .weights = 1e-7});
  EXPECT_LT(alone->losses.back(), alone->losses.front());
}

INSTANTIATE_TEST_SUITE_P(EndToEnd, SmallDecoders,
                         ::testing::Values("llama", "gpt", "llama2-7b", "baichuan2-13b", "qwen-7b",
                                           "pangualpha-2.6b"));

// In C++, a decoder is a module: its operators are members that can be annotated.
TEST(DecoderModules, operators_inside_can_be_annotated) {
  Decoder decoder(
      {.layers = 2, .hidden = 16, .heads = 4, .kv_heads = 2, .ffn = 16, .vocabulary = 32, .sequence = 8});
  decoder.layers[1].attention.q.dense.matmul.shard({{2, 1, 1}, {1, 2}});
  decoder.layers[1].attention.q.split.shard({{2, 1, 2}});
  Trace trace;
  decoder(trace.input("input", {DType::i32, {4, 8}}));
  std::vector<std::string> annotated;
  for (const auto& [name, annotation] : trace.constraints().tensors) annotated.push_back(name);
  EXPECT_EQ(annotated,
            (std::vector<std::string>{"layers.1.attention.q.matmul", "layers.1.attention.q.split"}));
}

}  // namespace
}  // namespace shardwright
