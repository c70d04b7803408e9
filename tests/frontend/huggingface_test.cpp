// Hugging Face folders with random weights: losses and gradients as transformers computes them in f64 (tests/reference/hf), under any plan; what is
// saved is read again; and what is wrong in a folder is one line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/changed_text.h"
#include "tests/support/command_outcome.h"
#include "tests/support/folder_runs.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using testing::expect_near, testing::losses, testing::write_data;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

const std::string references = "tests/reference/hf/";

using Ran = testing::CommandOutcome;

Ran run(const Words& words) { return testing::outcome_of(words); }

Json reference_of(const std::string& name) {
  return Json::parse(read_text(references + name + "/reference.json"));
}

struct HuggingFace : ::testing::Test {
  HuggingFace() { fs::create_directories(folder); }
  ~HuggingFace() override { fs::remove_all(folder); }

  std::string at(const std::string& name) const { return folder + "/" + name; }

  /// A copy of a reference's folder, which may be spoilt.
  std::string copy_of(const std::string& name) const {
    fs::copy(references + name, at(name), fs::copy_options::recursive);
    fs::permissions(at(name), fs::perms::owner_all, fs::perm_options::add);
    for (const auto& entry : fs::directory_iterator(at(name)))
      fs::permissions(entry.path(), fs::perms::owner_all, fs::perm_options::add);
    return at(name);
  }

  const std::string folder = scratch_folder();
};

struct EndToEndDropout : HuggingFace {};

std::vector<double> wanted(const Json& reference) {
  std::vector<double> out = reference["f64"]["losses"];
  out.push_back(reference["f64"]["loss_after"]);
  return out;
}

struct EndToEndFolders : HuggingFace, ::testing::WithParamInterface<std::string> {
  void expect_losses_under(std::initializer_list<Words> plans) const {
    const Json reference = reference_of(GetParam());
    write_data(at("data.safetensors"), reference["inputs"]);
    for (const Words& plan : plans)
      expect_near(losses(references + GetParam(), at("data.safetensors"), 5, plan), wanted(reference));
  }
};

TEST_P(EndToEndFolders, train_as_transformers_does_under_several_plans) {
  expect_losses_under({{"--devices", "2", "--fix", "dp=2", "--micro-batches", "2"},
                       {"--devices", "2", "--fix", "tp=2"},
                       {"--devices", "2", "--stages", "2", "--micro-batches", "4"}});
}

TEST_P(EndToEndFolders, mean_the_same_by_their_short_and_old_configs) {
  const Json reference = reference_of(GetParam());
  write_data(at("data.safetensors"), reference["inputs"]);
  for (const char* config : {"config.json", "config.short.json", "config.old.json"}) {
    if (!fs::exists(references + GetParam() + "/" + config)) continue;
    const std::string copy = copy_of(GetParam());
    write_file(copy + "/config.json", read_text(references + GetParam() + "/" + config));
    expect_near(losses(copy, at("data.safetensors"), 1), {wanted(reference)[0]});
    fs::remove_all(copy);
  }
}

/// With their masks ours, which dropout.py computes again; evaluation has none.
TEST_F(EndToEndDropout, drops_where_transformers_does) {
  const Json all = Json::parse(read_text(references + "dropout.json"));
  for (const auto& [name, wanted] : all.items()) {
    const std::string copy = copy_of(name), data = at(name + ".safetensors");
    Json config = Json::parse(read_text(copy + "/config.json"));
    for (const auto& [key, rate] : wanted["keys"].items()) config[key] = rate;
    write_file(copy + "/config.json", config.dump());
    write_data(data, reference_of(name)["inputs"]);
    const auto want = wanted["losses"].get<std::vector<double>>();
    for (const Words& plan : {Words{}, Words{"--devices", "2", "--fix", "dp=2", "--micro-batches", "2"},
                              Words{"--devices", "2", "--fix", "tp=2"},
                              Words{"--devices", "2", "--stages", "2", "--micro-batches", "2"}})
      expect_near(losses(copy, data, 3, plan), want);
    const Ran asked = run({"infer", copy, "--data", data, "--precision", "f64", "--json"});
    ASSERT_EQ(asked.status, 0) << asked.err;
    expect_near({Json::parse(asked.out)["loss"].get<double>()}, {reference_of(name)["f64"]["losses"][0]});
  }
}

/// One step of plain gradient descent at rate 1 takes the gradient off the weights, which the folder that is saved has
/// under the names of the first.
TEST_P(EndToEndFolders, save_what_was_trained_as_folders_of_the_same_names) {
  const Json reference = reference_of(GetParam());
  write_data(at("data.safetensors"), reference["inputs"]);
  const std::string model = references + GetParam(), saved = at("saved");
  const Ran ran =
      run({"train", model, "--data", at("data.safetensors"), "--precision", "f64", "--optimizer", "sgd",
           "--lr", "1", "--steps", "1", "--devices", "2", "--save-folder", saved, "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  double squares = 0;
  std::size_t tensors = 0;
  for (const auto& entry : fs::directory_iterator(model)) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile before = SafetensorsFile::open(entry.path().string()),
                          after = SafetensorsFile::open(saved + "/" + entry.path().filename().string());
    EXPECT_EQ(before.names(), after.names());
    for (const std::string& name : before.names()) {
      const auto x = to_doubles(before.read(name)), y = to_doubles(after.read(name));
      double norm = 0;
      for (std::size_t i = 0; i < x.size(); ++i) norm += (x[i] - y[i]) * (x[i] - y[i]);
      squares += norm;
      const Json& norms = reference["f64"]["grad_norms"];
      const std::string own = norms.contains(name) ? name : "transformer." + name;  // gpt2's, as in memory
      if (!norms.contains(own)) continue;
      ++tensors;
      EXPECT_NEAR(std::sqrt(norm), norms[own].get<double>(), 1e-9 * std::max(1.0, std::sqrt(norm))) << name;
    }
  }
  EXPECT_EQ(tensors, reference["f64"]["grad_norms"].size());
  const double norm = reference["f64"]["grad_norm"];
  EXPECT_NEAR(std::sqrt(squares), norm, 1e-9 * norm);
}

TEST_P(EndToEndFolders, saved_are_read_again) {
  const Json reference = reference_of(GetParam());
  write_data(at("data.safetensors"), reference["inputs"]);
  losses(references + GetParam(), at("data.safetensors"), 4,
         {"--devices", "2", "--save-folder", at("saved")});
  expect_near(losses(at("saved"), at("data.safetensors"), 1, {"--devices", "4", "--fix", "tp=2"}),
              {reference["f64"]["loss_after"]});
}

struct SlowFolders : EndToEndFolders {};

TEST_P(SlowFolders, train_as_transformers_does_under_searched_plans) {
  expect_losses_under({{},
                       {"--devices", "4"},
                       {"--devices", "8"},
                       {"--devices", "8", "--search", "recursive"},
                       {"--devices", "4", "--fix", "dp=2,tp=2", "--optimizer-parallel", "3:threshold=0"},
                       {"--devices", "8", "--stages", "2", "--micro-batches", "4", "--fix", "tp=2"},
                       {"--devices", "2", "--recompute", "full"},
                       {"--devices", "2", "--attention", "explicit"}});
}

const auto folders =
    ::testing::Values("llama", "llama_bf16", "llama3_sharded", "mistral", "qwen3", "gpt2_hub_names", "gemma2",
                      "bert_mlm", "vit", "mixtral_sharded", "t5", "t5_gated", "deepseek_v3", "whisper");
INSTANTIATE_TEST_SUITE_P(, EndToEndFolders, folders, [](const auto& param) { return param.param; });
INSTANTIATE_TEST_SUITE_P(, SlowFolders, folders, [](const auto& param) { return param.param; });

struct EndToEndCases : HuggingFace {};

TEST_F(EndToEndCases, padded_and_packed_rows_are_as_in_transformers) {
  std::size_t cases = 0;
  for (const char* name : {"llama", "mistral"}) {
    const Json reference = reference_of(name);
    for (const Json& one : reference["cases"]) {
      write_data(at("data.safetensors"), one["inputs"]);
      const bool is_apart = one.contains("call") && one["call"]["use_cache"] == false;
      const std::string model = references + name + (is_apart ? ":documents=apart" : "");
      for (const Words& plan : std::initializer_list<Words>{{}, {"--devices", "2", "--micro-batches", "2"}})
        expect_near(losses(model, at("data.safetensors"), 1, plan), {one["loss"]});
      ++cases;
    }
  }
  EXPECT_EQ(cases, 6U);
}

struct HuggingFaceErrors : HuggingFace {
  /// What `show` says of the folder, which is one line.
  std::string told_of(const std::string& model) const {
    const Ran ran = run({"show", model, "--summary"});
    EXPECT_EQ(ran.status, 2) << ran.out;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    return ran.err;
  }

  /// Of a copy of `name` whose config has one more key, or another value.
  std::string told_with(const std::string& name, const std::string& key, const Json& value) const {
    const std::string copy = copy_of(name);
    Json config = Json::parse(read_text(copy + "/config.json"));
    config[key] = value;
    write_file(copy + "/config.json", config.dump());
    const std::string out = told_of(copy);
    fs::remove_all(copy);
    return out;
  }
};

TEST_F(HuggingFaceErrors, what_config_says_is_understood_or_refused_by_name) {
  struct Case {
    std::string folder, key;
    Json value;
    std::string told;
  };
  const Case cases[] = {
      {"llama", "model_type", "lama", "\"model_type\" \"lama\" is unknown (did you mean llama?)"},
      {"llama", "model_type", nullptr, "has no \"model_type\""},
      {"llama",
       "architectures",
       {"LlamaForTokenClassification"},
       "LlamaForTokenClassification, which is not supported"},
      {"llama", "layer_drop", 0.1, "\"layer_drop\" is 0.1, which is not understood"},
      {"llama", "hidden_size", "48", "\"hidden_size\" is \"48\" but should be an integer from 1"},
      {"llama", "num_hidden_layers", 1000000000,
       "\"num_hidden_layers\" is 1000000000 but should be an integer from 1 to 4096"},
      {"llama", "num_attention_heads", -8, "\"num_attention_heads\" is -8"},
      {"llama", "num_key_value_heads", 3,
       "\"num_key_value_heads\" is 3 but should be a divisor of the 8 heads"},
      {"llama", "rms_norm_eps", "small", "\"rms_norm_eps\" is \"small\" but should be a number"},
      {"llama", "hidden_act", "mish", "\"hidden_act\" is \"mish\" but should be silu or"},
      {"llama", "attention_dropout", 1,
       "\"attention_dropout\" is 1 but should be at least 0 and less than 1"},
      {"llama", "tie_word_embeddings", 1, "\"tie_word_embeddings\" is 1 but should be true or false"},
      {"llama", "rope_parameters", {{"rope_type", "spiral"}}, "\"rope_parameters.rope_type\" is \"spiral\""},
      {"llama", "rope_parameters", {{"rope_type", "linear"}}, "has no \"rope_parameters.factor\""},
      {"llama",
       "rope_parameters",
       {{"rope_type", "default"}, {"wobble", 2}},
       "\"rope_parameters.wobble\" is 2"},
      {"llama", "rope_parameters", 7, "\"rope_parameters\" is 7 but should be an object"},
      {"llama", "attention_bias", true, "has no tensor 'model.layers.0.self_attn.k_proj.bias'"},
      {"llama", "tie_word_embeddings", "yes", "should be true or false"},
      {"llama", "vocab_size", 97, "is [96, 48] but config.json makes it [97, 48]"},
      {"llama", "num_hidden_layers", 1, "has 'model.layers.1."},
      {"mistral",
       "layer_types",
       {"sliding_attention"},
       "\"layer_types\" has 1 entries, but there are 2 layers"},
      {"mistral",
       "layer_types",
       {"full_attention", "linear_attention"},
       "\"layer_types\" has 'linear_attention'"},
      {"gpt2_hub_names", "attn_pdrop", -0.1, "\"attn_pdrop\" is -0.1 but should be at least 0"},
      {"gpt2_hub_names", "scale_attn_by_inverse_layer_idx", true, "which is not supported"},
      {"mixtral_sharded", "output_router_logits", true, "which is not supported"},
      {"mixtral_sharded", "num_experts_per_tok", 9, "\"num_experts_per_tok\" is 9"},
      {"bert_mlm", "is_decoder", true, "which is not supported"},
      {"vit", "hidden_act", "relu", "which is not supported"},
      {"t5", "feed_forward_proj", "gated-mish",
       "\"feed_forward_proj\" is \"gated-mish\" but should be relu, gelu"},
      {"t5", "decoder_start_token_id", nullptr, "has no \"decoder_start_token_id\""},
      {"whisper", "decoder_layerdrop", 0.1,
       "\"decoder_layerdrop\" is 0.1: layers that are left out by chance"},
      {"t5", "relative_attention_max_distance", 3, "should be more than 4, half of the buckets"},
      {"deepseek_v3", "num_key_value_heads", 2,
       "\"num_key_value_heads\" is 2 but should be 4, as there are heads"},
      {"deepseek_v3", "n_group", 3, "\"n_group\" is 3 but should be such that 8 experts are in groups"},
      {"deepseek_v3", "num_experts_per_tok", 5, "5 experts cannot be chosen in 2 of 4 groups of 8 experts"},
      {"deepseek_v3", "scoring_func", "softmax", "experts would be chosen otherwise"},
      {"whisper", "apply_spec_augment", true, "parts of the sound would be left out by chance"},
      {"whisper", "encoder_attention_heads", 5,
       "\"encoder_attention_heads\" is 5 but should be a divisor of the width 24"},
      {"whisper", "max_source_positions", 9, "is [8, 24] but config.json makes it [9, 24]"},
      {"t5", "num_decoder_layers", 3, "has no tensor 'decoder.block.2."},
  };
  for (const Case& c : cases) {
    const std::string told = told_with(c.folder, c.key, c.value);
    EXPECT_NE(told.find(c.told), std::string::npos) << told;
    EXPECT_NE(told.find(at(c.folder)), std::string::npos) << told;
  }
}

TEST_F(HuggingFaceErrors, dropout_is_left_out_where_that_is_said) {
  const std::string copy = copy_of("gpt2_hub_names");
  Json config = Json::parse(read_text(copy + "/config.json"));
  config.erase("resid_pdrop");  // 0.1, where it is not said
  write_file(copy + "/config.json", config.dump());
  const auto drops = [&](const std::string& model) {
    const Ran shown = run({"show", model});
    EXPECT_EQ(shown.status, 0) << shown.err;
    return shown.out.find("= dropout ") != std::string::npos;
  };
  EXPECT_TRUE(drops(copy));
  EXPECT_FALSE(drops(copy + ":dropout=0"));
  EXPECT_NE(told_of(copy + ":dropout=0.5").find("dropout=0.5: should be 0"), std::string::npos);
  EXPECT_NE(told_of(copy + ":seq=64").find("seq=64: the network has 32 places"), std::string::npos);
  EXPECT_NE(told_of(copy + ":layers=3").find("key 'layers' is unknown"), std::string::npos);
  EXPECT_NE(told_of(copy + ":inputs=pixel_values").find("'pixel_values' is no input of gpt2"),
            std::string::npos);
}

TEST_F(HuggingFaceErrors, files_are_whole_and_belong_together) {
  const std::string copy = copy_of("llama3_sharded"), index = copy + "/model.safetensors.index.json",
                    shard = copy + "/model-00003-of-00005.safetensors";
  const std::string good = read_text(index);
  const auto told_with_index = [&](const std::string& text) {
    write_file(index, text);
    const std::string out = told_of(copy);
    write_file(index, good);
    return out;
  };
  const auto changed = [&](const std::string& tensor, const Json& file) {
    Json json = Json::parse(good);
    json["weight_map"][tensor] = file;
    return told_with_index(json.dump());
  };
  EXPECT_NE(told_with_index("{").find("model.safetensors.index.json: "), std::string::npos);
  EXPECT_NE(told_with_index("[]").find("should be an object"), std::string::npos);
  EXPECT_NE(told_with_index("{\"weight_map\": 3}").find("\"weight_map\" is 3"), std::string::npos);
  EXPECT_NE(changed("model.norm.weight", "../x.safetensors").find("in the same folder"), std::string::npos);
  EXPECT_NE(changed("model.norm.weight", 7).find("in the same folder"), std::string::npos);
  EXPECT_NE(changed("model.norm.weight", "gone.safetensors").find("gone.safetensors: cannot be read"),
            std::string::npos);
  EXPECT_NE(
      changed("model.none.weight", "model-00003-of-00005.safetensors").find("which the index says it has"),
      std::string::npos);
  fs::rename(shard, shard + ".away");
  EXPECT_NE(told_of(copy).find("model-00003-of-00005.safetensors: cannot be read"), std::string::npos);
  write_bytes(shard, "no tensors");
  EXPECT_NE(told_of(copy).find("model-00003-of-00005.safetensors: header"), std::string::npos);
  fs::rename(shard + ".away", shard);
  fs::resize_file(shard, fs::file_size(shard) - 4);
  EXPECT_NE(told_of(copy).find("truncated"), std::string::npos);
  fs::remove(index);
  EXPECT_NE(told_of(copy).find("has neither model.safetensors nor model.safetensors.index.json"),
            std::string::npos);
}

TEST_F(HuggingFaceErrors, tensors_are_weights_of_this_network) {
  const std::string copy = copy_of("qwen3"), path = copy + "/model.safetensors";
  const SafetensorsFile file = SafetensorsFile::open(references + "qwen3/model.safetensors");
  std::map<std::string, Tensor> all;
  for (const std::string& name : file.names()) all[name] = file.read(name);
  const auto told_with_tensors = [&](std::map<std::string, Tensor> tensors) {
    write_safetensors(path, tensors);
    return told_of(copy);
  };
  auto spoilt = all;
  spoilt["model.norm.weight"] = Tensor({DType::i32, {32}});
  EXPECT_NE(
      told_with_tensors(spoilt).find("'model.norm.weight' is i32[32]; weights are F32, BF16, F16 or F64"),
      std::string::npos);
  spoilt = all;
  spoilt.erase("model.layers.1.self_attn.q_norm.weight");
  EXPECT_NE(told_with_tensors(spoilt).find("has no tensor 'model.layers.1.self_attn.q_norm.weight'"),
            std::string::npos);
  spoilt = all;
  spoilt["model.layers.0.self_attn.sinks"] = Tensor({DType::f32, {4}});
  EXPECT_NE(told_with_tensors(spoilt).find(
                "has 'model.layers.0.self_attn.sinks', which a network of this config.json"),
            std::string::npos);
}

TEST_F(HuggingFaceErrors, folders_are_written_beside_and_only_of_folders) {
  const std::string model = references + "qwen3";
  const auto told = [&](const Words& words) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.status, 2) << ran.out;
    return ran.err;
  };
  EXPECT_NE(told({"train", model, "--steps", "1", "--save-folder", model})
                .find("is the folder that the weights are read from"),
            std::string::npos);
  EXPECT_NE(told({"train", "llama:layers=1,hidden=16,heads=4,ffn=16,vocab=16,seq=8", "--steps", "1",
                  "--save-folder", at("x")})
                .find("comes from no folder with config.json"),
            std::string::npos);
  const Json reference = reference_of("vit");
  Json inputs = reference["inputs"];
  inputs["attention_mask"] = Json::array({Json::array({1})});
  write_data(at("data.safetensors"), inputs);
  EXPECT_NE(told({"train", references + "vit", "--data", at("data.safetensors"), "--steps", "1"})
                .find("has 'attention_mask', which changes what vit computes"),
            std::string::npos);
  write_data(at("plain.safetensors"), reference_of("llama")["inputs"]);
  write_data(at("padded.safetensors"), reference_of("llama")["cases"][0]["inputs"]);
  EXPECT_NE(told({"train", references + "llama", "--data", at("plain.safetensors"), "--eval",
                  at("padded.safetensors"), "--steps", "1"})
                .find("FOLDER:inputs=attention_mask"),
            std::string::npos);
}

// Whatever a folder holds is read, or refused in one line.
TEST_F(HuggingFaceErrors, changed_configs_and_indexes_end_in_one_line) {
  testing::Random random = testing::random_of(11);
  for (const char* name : {"gemma2", "llama3_sharded"}) {
    const std::string copy = copy_of(name);
    for (const char* file : {"config.json", "model.safetensors.index.json"}) {
      const std::string path = copy + "/" + file;
      if (!fs::exists(path)) continue;
      const std::string good = read_text(path);
      for (int i = 0; i < 60; ++i) {
        const std::string text =
            i % 2 ? testing::changed_json(random, good) : testing::changed_text(random, good);
        write_bytes(path, text);
        const Ran ran = run({"show", copy + ":seq=8,batch=2", "--summary"});
        EXPECT_TRUE(ran.status == 0 || ran.status == 2) << text;
        const auto lines = std::count(ran.err.begin(), ran.err.end(), '\n');
        EXPECT_TRUE(ran.status == 0 || lines == 1) << ran.err << text;
      }
      write_bytes(path, good);
    }
  }
}

}  // namespace
}  // namespace shardwright
