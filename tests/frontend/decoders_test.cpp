// Decoder models: published parameter counts, what a token costs, names, and that every member trains.

#include <gtest/gtest.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
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

std::string graph_of(const std::string& model) { return to_text(build_model(model).graph); }

// The families are members of one: what a key says is what the other family is.
TEST(DecoderForms, make_of_each_family_the_other) {
  const std::string sizes = "layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=64,seq=16,batch=2";
  EXPECT_EQ(graph_of("gpt:" + sizes + ",activation=swiglu,bias=0,norm=rms,positions=rope,tied=0"),
            graph_of("llama:" + sizes));
  EXPECT_EQ(graph_of("llama:" + sizes + ",activation=gelu,bias=1,norm=layer,positions=learned,tied=1"),
            graph_of("gpt:" + sizes));
  EXPECT_NE(graph_of("gpt:" + sizes), graph_of("llama:" + sizes));
  EXPECT_EQ(graph_of("llama:" + sizes + ",bias=qkv,positions=rope"),
            graph_of("llama:" + sizes + ",bias=qkv"));
  EXPECT_EQ(graph_of("baichuan2-13b:" + sizes), graph_of("baichuan2-7b:" + sizes + ",positions=alibi"));
}

std::int64_t parameters_of(const std::string& keys) {
  const std::string sizes = "layers=2,hidden=32,heads=4,ffn=48,vocab=64,seq=16,batch=2";
  return summary(keys + (keys.find(':') == keys.npos ? ":" : ",") + sizes).at("parameters");
}

/// How much each key adds, by hand.
TEST(DecoderForms, have_the_parameters_that_follow) {
  const std::int64_t gpt = parameters_of("gpt"), llama = parameters_of("llama"), layers = 2, width = 32;
  EXPECT_EQ(parameters_of("gpt:tied=0") - gpt, 64 * width);
  EXPECT_EQ(parameters_of("gpt:kv_heads=1") - gpt, -layers * 2 * (width + 1) * 24);  // weights and biases
  EXPECT_EQ(parameters_of("gpt:bias=0") - gpt, -layers * (4 * width + 48 + width));
  EXPECT_EQ(parameters_of("gpt:bias=qkv") - gpt, -layers * (width + 48 + width));
  EXPECT_EQ(parameters_of("gpt:positions=none") - gpt, -16 * width);
  EXPECT_EQ(parameters_of("gpt:norm=rms") - gpt, -(2 * layers + 1) * width);
  EXPECT_EQ(parameters_of("gpt:activation=geglu") - gpt, layers * (width + 1) * 48);
  EXPECT_EQ(parameters_of("llama:head_dim=16") - llama, layers * 4 * width * (64 - 32));
  EXPECT_EQ(parameters_of("llama:qk_norm=1") - llama, layers * 2 * 8);
  for (const char* same : {"gpt:activation=squared_relu", "gpt:dropout=0.1,attention_dropout=0.2",
                           "gpt:causal=0", "gpt:parallel_residual=1"})
    EXPECT_EQ(parameters_of(same), gpt) << same;
}

TEST(DecoderForms, of_dropout_stand_behind_networks_and_in_attention) {
  const std::string graph = graph_of(
      "gpt:layers=1,hidden=32,heads=4,vocab=64,seq=16,dropout=0.25,"
      "attention_dropout=0.125,activation=squared_relu");
  std::size_t count = 0;
  for (std::size_t at = 0; (at = graph.find("rate=0.25", at)) != graph.npos; ++at) ++count;
  EXPECT_EQ(count, 3U);  // behind the embedding and both networks
  EXPECT_NE(graph.find("rate=0.125"), graph.npos);
  EXPECT_NE(graph.find("%layers.0.ffn.squared = square %layers.0.ffn.relu"), graph.npos) << graph;
}

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
