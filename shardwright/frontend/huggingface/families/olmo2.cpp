// OLMo 2: as Llama, with norms behind the networks instead of in front, and queries and keys normed over all their heads.

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

std::vector<Family> olmo2() {
  const auto olmo2 = [](const FamilyCall& call) {
    const Config& c = call.config;
    DecoderOptions o = decoder_options(call, {.vocabulary = 50304, .epsilon = 1e-5, .padding = 1});
    o.activation = activation_of(c, "hidden_act", "silu", true);
    o.norms = NormPlaces::behind;
    o.heads_as.norm = HeadNorm::of_all_heads;
    o.heads_as.epsilon = o.epsilon;
    o.qkv_bias = c.flag_or("attention_bias", false);
    o.out_bias = o.qkv_bias;
    Names names = llama_names();
    for (NameRow& row : names.rows) {
      if (row.ours == "layers.#.norm1.weight") row.theirs = "layers.#.post_attention_layernorm.weight";
      if (row.ours == "layers.#.norm2.weight") row.theirs = "layers.#.post_feedforward_layernorm.weight";
    }
    return BuiltFamily{decoder_model(call, o), names};
  };
  return {{"olmo2", {"Olmo2ForCausalLM"}, {"attention_mask", "position_ids"}, olmo2}};
}

}  // namespace shardwright::families
