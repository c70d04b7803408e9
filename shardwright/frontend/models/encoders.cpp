// Encoders by the names of their papers: BERT that predicts masked words (Devlin et al. 2019), T5 whose decoder reads what its encoder made
// (Raffel et al. 2020) and ViT that classifies pictures (Dosovitskiy et al. 2021). They are the networks of Hugging Face's folders (frontend/huggingface/families), with sizes by keys instead of a config.

#include <algorithm>

#include "shardwright/base/given.h"
#include "shardwright/frontend/huggingface/family.h"
#include "shardwright/frontend/model.h"

namespace shardwright::models {
namespace {

using huggingface::Config;
using huggingface::Family;

Model built(const std::string& type, const std::string& name, const Json& config,
            const ModelArguments& arguments) {
  const auto family = std::ranges::find(all_families(), type, &Family::type);
  require(family != all_families().end(), "no family {}", type);
  return family->build({Config(name, config), arguments}).model;
}

/// What both have by the same keys of ours and of a config.
Json sizes_of(const ModelArguments& arguments) {
  return {{"num_hidden_layers", arguments.integer("layers", 12, 4096)},
          {"hidden_size", arguments.integer("hidden", 768)},
          {"num_attention_heads", arguments.integer("heads", 12)},
          {"intermediate_size", arguments.integer("ffn", 4 * arguments.integer("hidden", 768))},
          {"hidden_dropout_prob", 0},
          {"attention_probs_dropout_prob", 0}};
}

Model build_bert(const ModelArguments& arguments) {
  Json config = sizes_of(arguments);
  config["vocab_size"] = arguments.integer("vocab", 30522);
  config["max_position_embeddings"] = std::max<std::int64_t>(512, arguments.integer("seq", 512));
  return built("bert", "bert-base", config, arguments);
}

Model build_t5(const ModelArguments& arguments) {
  const std::int64_t hidden = arguments.integer("hidden", 512), heads = arguments.integer("heads", 8),
                     layers = arguments.integer("layers", 6, 4096);
  if (!arguments.keys.contains("head_dim") && hidden % heads)
    throw error("heads={}: should divide hidden={}, or say head_dim", heads, hidden);
  const Given dropout{"dropout", arguments.text("dropout", "0")};
  if (const double rate = dropout.number(); rate < 0 || rate >= 1)
    throw dropout.wrong("should be at least 0 and less than 1");
  Json config{{"d_model", hidden},
              {"num_heads", heads},
              {"d_kv", arguments.integer("head_dim", std::max<std::int64_t>(1, hidden / heads))},
              {"d_ff", arguments.integer("ffn", 4 * hidden)},
              {"num_layers", layers},
              {"num_decoder_layers", arguments.integer("decoder_layers", layers, 4096)},
              {"vocab_size", arguments.integer("vocab", 32128)},
              {"dropout_rate", dropout.number()},
              {"feed_forward_proj", arguments.text("activation", "relu")},
              {"decoder_start_token_id", 0}};
  ModelArguments rest = arguments;
  rest.keys.erase("dropout");  // which of a folder can only be left out
  return built("t5", "t5", config, rest);
}

Model build_vit(const ModelArguments& arguments) {
  Json config = sizes_of(arguments);
  config["image_size"] = arguments.integer("image", 224);
  config["patch_size"] = arguments.integer("patch", 16);
  config["num_labels"] = arguments.integer("classes", 1000);
  return built("vit", "vit", config, arguments);
}

}  // namespace

std::vector<ModelDef> encoders() {
  const std::map<std::string, std::string> sizes{
      {"batch", "8"}, {"ffn", "4*hidden"}, {"heads", "12"}, {"hidden", "768"}, {"layers", "12"}};
  const auto with = [&](std::map<std::string, std::string> own) {
    own.insert(sizes.begin(), sizes.end());
    return own;
  };
  return {
      {.name = "bert-base",
       .doc = "BERT that predicts masked words: norms behind the sums, the head tied to the embedding, no "
              "dropout",
       .keys = with({{"seq", "512"}, {"vocab", "30522"}}),
       .trained = {256, "Devlin et al., 2019"},
       .build = build_bert},
      {.name = "t5",
       .doc = "T5, an encoder and a decoder that reads what it made: RMS norms, no biases, places by a bias "
              "of the scores, "
              "which lie in memory; the head tied to the embedding",
       .keys = {{"activation", "relu"},
                {"batch", "8"},
                {"decoder_layers", "layers"},
                {"dropout", "0"},
                {"ffn", "4*hidden"},
                {"head_dim", "hidden/heads"},
                {"heads", "8"},
                {"hidden", "512"},
                {"layers", "6"},
                {"seq", "512"},
                {"target", "seq"},
                {"vocab", "32128"}},
       .build = build_t5},
      {.name = "vit",
       .doc =
           "ViT-Base that classifies images of image x image pixels by patches of patch x patch, no dropout",
       .keys = with({{"classes", "1000"}, {"image", "224"}, {"patch", "16"}}),
       .trained = {4096, "Dosovitskiy et al., 2021"},
       .build = build_vit}};
}

}  // namespace shardwright::models
