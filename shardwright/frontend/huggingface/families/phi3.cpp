// Phi-3: as Llama; queries, keys and values are one tensor, and so are gates and what they gate.

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

std::vector<Family> phi3() {
  const auto phi3 = [](const FamilyCall& call) {
    const Config& c = call.config;
    DecoderOptions o = decoder_options(call, {.vocabulary = 32064,
                                              .hidden = 3072,
                                              .ffn = 8192,
                                              .places = 4096,
                                              .epsilon = 1e-5,
                                              .padding = 32000});
    o.activation = activation_of(c, "hidden_act", "silu", true);
    o.dropout = call.dropout("resid_pdrop", 0);
    c.pass_over({"embd_pdrop"});  // which its makers do not read
    read_windows(call, o, c.integer_or("sliding_window", 0, 0));
    c.only("attention_bias", false, "there are no biases");
    Names names = llama_names();
    const std::vector<std::pair<std::string, std::string>> together{{"attention.q", "self_attn.qkv_proj"},
                                                                    {"attention.k", "self_attn.qkv_proj"},
                                                                    {"attention.v", "self_attn.qkv_proj"},
                                                                    {"ffn.gate", "mlp.gate_up_proj"},
                                                                    {"ffn.up", "mlp.gate_up_proj"}};
    for (const auto& [ours, theirs] : together)
      for (NameRow& row : names.rows)
        if (row.ours == "layers.#." + ours + ".weight") row.theirs = "layers.#." + theirs + ".weight";
    return BuiltFamily{decoder_model(call, o), names};
  };
  return {{"phi3", {"Phi3ForCausalLM"}, {"attention_mask", "position_ids"}, phi3}};
}

}  // namespace shardwright::families
