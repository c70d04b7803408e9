// OPT: layer norm, relu, learned positions whose table begins with two rows that nothing is at, the head tied to the embedding. Its
// positions count what a mask leaves, so that rows are not padded here.

#include <limits>

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

DecoderOptions options_of(const FamilyCall& call) {
  const Config& c = call.config;
  DecoderOptions o{.positions = Positions::learned, .layer_norm = true, .qkv_bias = true, .bias = true};
  o.hidden = c.integer_or("hidden_size", 768, 1, 1 << 20);
  o.layers = c.integer_or("num_hidden_layers", 12, 1, 4096);
  o.heads = o.kv_heads = c.integer_or("num_attention_heads", 12, 1, 1 << 20);
  if (o.hidden % o.heads != 0)
    throw c.wrong("num_attention_heads", fmt::format("a divisor of hidden_size {}", o.hidden));
  o.ffn = c.integer_or("ffn_dim", 3072, 1, 1 << 24);
  o.vocabulary = c.integer_or("vocab_size", 50272, 1, std::numeric_limits<std::int32_t>::max());
  o.places = c.integer_or("max_position_embeddings", 2048, 1, 1 << 24);
  o.first_place = 2;
  o.sequence = call.arguments.cached > 0 ? o.places : call.sequence(o.places);
  o.activation = activation_of(c, "activation_function", "relu", false);
  o.tied_head = c.flag_or("tie_word_embeddings", true);
  o.padding = c.integer_or("pad_token_id", 1, 0, o.vocabulary - 1);
  o.dropout = call.dropout("dropout", 0.1);
  o.heads_as.dropout = call.dropout("attention_dropout", 0);
  call.check_layers_stay("layerdrop");
  c.only("do_layer_norm_before", true, "norms would stand behind the networks");
  c.only("_remove_final_layer_norm", false, "there would be no last norm");
  c.only("word_embed_proj_dim", o.hidden, "the embedding would be of another width");
  c.only("enable_bias", true, "there would be no biases");
  c.only("layer_norm_elementwise_affine", true, "norms would have no weights");
  c.pass_over({"init_std", "activation_dropout"});
  return o;
}

Names names() {
  Names out{.rows = {{"embedding.weight", "embed_tokens.weight"},
                     {"positions.weight", "embed_positions.weight"},
                     {"norm.weight", "final_layer_norm.weight"},
                     {"norm.bias", "final_layer_norm.bias"},
                     {"head.weight", "lm_head.weight", Lay::transposed}},
            .prefix = "model.decoder.",
            .outside = {"lm_head.weight"},
            .ignored = {"lm_head.weight"}};
  const auto both = [&](const std::string& ours, const std::string& theirs, Lay lay) {
    out.add_of_layer(ours, "layers.#.", theirs, lay);
  };
  both("norm1", "self_attn_layer_norm", Lay::same);
  both("norm2", "final_layer_norm", Lay::same);
  both("attention.q", "self_attn.q_proj", Lay::transposed);
  both("attention.k", "self_attn.k_proj", Lay::transposed);
  both("attention.v", "self_attn.v_proj", Lay::transposed);
  both("attention.o", "self_attn.out_proj", Lay::transposed);
  both("ffn.up", "fc1", Lay::transposed);
  both("ffn.down", "fc2", Lay::transposed);
  return out;
}

}  // namespace

std::vector<Family> opt() {
  return {{"opt", {"OPTForCausalLM"}, {}, [](const FamilyCall& call) {
             const DecoderOptions o = options_of(call);
             return BuiltFamily{decoder_model(call, o), names()};
           }}};
}

}  // namespace shardwright::families
