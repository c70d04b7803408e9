// GPT-2: layer norm, learned positions, gelu of its tanh form, biases, the head tied to the embedding. Weights of products stand as (in,
// out); those of queries, keys and values are one tensor.

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

DecoderOptions options_of(const FamilyCall& call) {
  const Config& c = call.config;
  DecoderOptions o{.positions = Positions::learned, .layer_norm = true, .qkv_bias = true, .bias = true};
  o.hidden = c.integer_or("n_embd", 768, 1, 1 << 20);
  o.layers = c.integer_or("n_layer", 12, 1, 4096);
  o.heads = o.kv_heads = c.integer_or("n_head", 12, 1, 1 << 20);
  if (o.hidden % o.heads != 0) throw c.wrong("n_head", fmt::format("a divisor of n_embd {}", o.hidden));
  o.ffn = c.integer_or("n_inner", 4 * o.hidden, 1, 1 << 24);
  o.vocabulary = c.integer_or("vocab_size", 50257, 1, std::numeric_limits<std::int32_t>::max());
  o.places = c.integer_or("n_positions", 1024, 1, 1 << 24);
  o.sequence = call.arguments.cached > 0 ? o.places : call.sequence(o.places);
  o.epsilon = c.number_or("layer_norm_epsilon", 1e-5);
  o.activation = activation_of(c, "activation_function", "gelu_new", false);
  o.tied_head = c.flag_or("tie_word_embeddings", true);
  o.heads_as.dropout = call.dropout("attn_pdrop", 0.1);
  o.embedding_dropout = call.dropout("embd_pdrop", 0.1);
  o.dropout = call.dropout("resid_pdrop", 0.1);
  c.only("add_cross_attention", false, "it is a decoder that reads an encoder");
  c.only("is_decoder", true, "what it means is not known");
  c.only("scale_attn_weights", true, "scores would have no scale");
  c.only("scale_attn_by_inverse_layer_idx", false, "scores would be scaled by layer");
  // How it is computed in short types, and heads that are not built.
  c.pass_over({"reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
               "summary_proj_to_labels", "summary_type", "summary_use_proj", "n_ctx", "pad_token_id"});
  return o;
}

Names names() {
  Names out{.rows = {{"embedding.weight", "wte.weight"},
                     {"positions.weight", "wpe.weight"},
                     {"norm.weight", "ln_f.weight"},
                     {"norm.bias", "ln_f.bias"},
                     {"head.weight", "lm_head.weight", Lay::transposed}},
            .prefix = "transformer.",
            .outside = {"lm_head.weight"},
            .ignored = {"h.#.attn.bias", "h.#.attn.masked_bias", "lm_head.weight"}};
  const auto both = [&](const char* ours, const char* theirs) { out.add_of_layer(ours, "h.#.", theirs); };
  both("norm1", "ln_1");
  both("norm2", "ln_2");
  for (const char* part : {"attention.q", "attention.k", "attention.v"}) both(part, "attn.c_attn");
  both("attention.o", "attn.c_proj");
  both("ffn.up", "mlp.c_fc");
  both("ffn.down", "mlp.c_proj");
  return out;
}

}  // namespace

std::vector<Family> gpt2() {
  return {{"gpt2", {"GPT2LMHeadModel"}, {"attention_mask", "position_ids"}, [](const FamilyCall& call) {
             const DecoderOptions o = options_of(call);
             return BuiltFamily{decoder_model(call, o), names()};
           }}};
}

}  // namespace shardwright::families
