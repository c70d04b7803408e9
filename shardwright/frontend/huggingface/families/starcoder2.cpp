// StarCoder 2: layer norm, rotary positions, grouped heads, a network that is not gated, biases everywhere.

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

std::vector<Family> starcoder2() {
  const auto starcoder2 = [](const FamilyCall& call) {
    const Config& c = call.config;
    DecoderOptions o = decoder_options(call, {.vocabulary = 49152,
                                              .hidden = 3072,
                                              .ffn = 12288,
                                              .layers = 30,
                                              .heads = 24,
                                              .kv_heads = 2,
                                              .places = 4096,
                                              .tied = true,
                                              .epsilon = 1e-5,
                                              .epsilon_key = "norm_epsilon"});
    o.activation = activation_of(c, "hidden_act", "gelu_pytorch_tanh", false);
    o.layer_norm = true;
    o.bias = o.qkv_bias = c.flag_or("use_bias", true);
    o.dropout = call.dropout("residual_dropout", 0);
    o.embedding_dropout = call.dropout("embedding_dropout", 0);
    read_windows(call, o, c.integer_or("sliding_window", 0, 0));
    c.only("mlp_type", "default", "the network would be another");
    c.only("norm_type", "layer_norm", "norms would be others");
    Names names = llama_names();
    std::erase_if(names.rows, [](const NameRow& row) { return row.ours.starts_with("layers.#.ffn."); });
    names.add_of_layer("ffn.up", "layers.#.", "mlp.c_fc", Lay::transposed);
    names.add_of_layer("ffn.down", "layers.#.", "mlp.c_proj", Lay::transposed);
    names.rows.push_back({"norm.bias", "norm.bias"});
    names.rows.push_back({"layers.#.norm1.bias", "layers.#.input_layernorm.bias"});
    names.rows.push_back({"layers.#.norm2.bias", "layers.#.post_attention_layernorm.bias"});
    return BuiltFamily{decoder_model(call, o), names};
  };
  return {{"starcoder2", {"Starcoder2ForCausalLM"}, {"attention_mask", "position_ids"}, starcoder2}};
}

}  // namespace shardwright::families
