// GPT-NeoX: layer norm, rotary positions of a quarter of each head, both networks of a layer reading one x; each head has its queries, keys
// and values together in one tensor.

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

Names names_of(std::int64_t heads) {
  Names out{.rows = {{"embedding.weight", "embed_in.weight"},
                     {"norm.weight", "final_layer_norm.weight"},
                     {"norm.bias", "final_layer_norm.bias"},
                     {"head.weight", "embed_out.weight", Lay::transposed}},
            .prefix = "gpt_neox.",
            .outside = {"embed_out.weight"},
            .ignored = {"layers.#.attention.bias", "layers.#.attention.masked_bias",
                        "layers.#.attention.rotary_emb.inv_freq", "embed_out.weight"}};
  const auto both = [&](const std::string& ours, const std::string& theirs, Lay lay,
                        std::int64_t groups = 1) {
    out.add_of_layer(ours, "layers.#.", theirs, lay, groups);
  };
  both("norm1", "input_layernorm", Lay::same);
  both("norm2", "post_attention_layernorm", Lay::same);
  for (const char* part : {"attention.q", "attention.k", "attention.v"})
    both(part, "attention.query_key_value", Lay::transposed, heads);
  both("attention.o", "attention.dense", Lay::transposed);
  both("ffn.up", "mlp.dense_h_to_4h", Lay::transposed);
  both("ffn.down", "mlp.dense_4h_to_h", Lay::transposed);
  return out;
}

}  // namespace

std::vector<Family> gpt_neox() {
  const auto gpt_neox = [](const FamilyCall& call) {
    const Config& c = call.config;
    DecoderOptions o = decoder_options(call, {.vocabulary = 50432,
                                              .hidden = 6144,
                                              .ffn = 24576,
                                              .layers = 44,
                                              .heads = 64,
                                              .base = c.number_or("rotary_emb_base", 10000),
                                              .epsilon = 1e-5,
                                              .epsilon_key = "layer_norm_eps",
                                              .rotary_share = c.number_or("rotary_pct", 0.25)});
    o.padding.reset();  // the embedding has none
    o.activation = activation_of(c, "hidden_act", "gelu", false);
    o.layer_norm = true;
    o.bias = true;
    o.qkv_bias = c.flag_or("attention_bias", true);
    o.out_bias = o.qkv_bias;
    if (c.flag_or("use_parallel_residual", true)) o.norms = NormPlaces::parallel;
    o.embedding_dropout = o.dropout = call.dropout("hidden_dropout", 0);
    c.only("is_decoder", false, "what it means is not known");
    c.pass_over({"classifier_dropout"});
    return BuiltFamily{decoder_model(call, o), names_of(o.heads)};
  };
  return {{"gpt_neox", {"GPTNeoXForCausalLM"}, {"attention_mask", "position_ids"}, gpt_neox}};
}

}  // namespace shardwright::families
