// Encoders by the names of their papers: BERT that predicts masked words (Devlin et al. 2019) and ViT that classifies pictures (Dosovitskiy
// et al. 2021). They are the networks of Hugging Face's folders (frontend/huggingface/families), with sizes by keys instead of a config.

#include <algorithm>

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
      {.name = "vit",
       .doc =
           "ViT-Base that classifies images of image x image pixels by patches of patch x patch, no dropout",
       .keys = with({{"classes", "1000"}, {"image", "224"}, {"patch", "16"}}),
       .trained = {4096, "Dosovitskiy et al., 2021"},
       .build = build_vit}};
}

}  // namespace shardwright::models
