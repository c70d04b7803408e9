// Llama and Mistral: RMS norm, rotary positions, grouped heads, swiglu; Mistral with a window.

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

std::vector<Family> llama() {
  const auto llama = [](const FamilyCall& call) {
    DecoderOptions o = decoder_options(call, {});
    o.activation = activation_of(call.config, "hidden_act", "silu", true);
    o.bias = call.config.flag_or("mlp_bias", false);
    o.qkv_bias = call.config.flag_or("attention_bias", false);
    o.out_bias = o.qkv_bias;
    return BuiltFamily{decoder_model(call, o), llama_names()};
  };
  const auto mistral = [](const FamilyCall& call) {
    DecoderOptions o = decoder_options(call, {.ffn = 14336, .kv_heads = 8, .places = 131072});
    o.activation = activation_of(call.config, "hidden_act", "silu", true);
    // Configs that do not say it mean the first model's window.
    const bool says = call.config.says("sliding_window");
    read_windows(call, o, call.config.integer_or("sliding_window", says ? 0 : 4096, 0));
    return BuiltFamily{decoder_model(call, o), llama_names()};
  };
  return {{"llama", {"LlamaForCausalLM"}, {"attention_mask", "position_ids"}, llama},
          {"mistral", {"MistralForCausalLM"}, {"attention_mask", "position_ids"}, mistral}};
}

}  // namespace shardwright::families
