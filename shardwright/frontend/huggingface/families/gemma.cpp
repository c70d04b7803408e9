// Gemma 2 and the text part of 3: norms before and behind both networks, whose weights count from 1, gelu in its gated form, an
// embedding scaled by sqrt(hidden), caps on scores, windows in every other layer; 3 has norms of heads instead of caps, and other
// rotary positions in layers with a window.

#include <cmath>
#include <functional>

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

struct GemmaDefaults {
  double heads_cap = 0, scores_cap = 0;
  std::function<bool(std::int64_t)> has_window;
};

/// What both have, once sizes are read.
BuiltFamily gemma_model(const FamilyCall& call, DecoderOptions o, const GemmaDefaults& defaults) {
  const Config& c = call.config;
  o.activation = activation_of(c, c.has("hidden_activation") ? "hidden_activation" : "hidden_act",
                               "gelu_pytorch_tanh", true);
  c.pass_over({"hidden_act"});
  o.qkv_bias = c.flag_or("attention_bias", false);
  o.out_bias = o.qkv_bias;
  o.norms = NormPlaces::both;
  o.norm_from_one = true;
  o.embedding_scale = std::sqrt(static_cast<double>(o.hidden));
  const auto cap = [&](const char* key, double otherwise) {
    return c.says(key) ? c.number_or(key, 0) : otherwise;
  };
  const double heads_cap = cap("attn_logit_softcapping", defaults.heads_cap),
               scale = 1 / std::sqrt(c.number_or("query_pre_attn_scalar", 256));
  for (SelfAttention::Options* heads :
       {&o.heads_as, o.heads_in_windows ? &*o.heads_in_windows : &o.heads_as}) {
    heads->scale = scale;
    heads->cap = heads_cap;
  }
  o.score_cap = cap("final_logit_softcapping", defaults.scores_cap);
  c.only("use_bidirectional_attention", false, "later elements would be seen");
  const std::int64_t window = c.says("sliding_window") ? c.integer_or("sliding_window", 0, 0) : 4096;
  read_windows(call, o, window, defaults.has_window);
  Names names = llama_names();
  for (NameRow& row : names.rows)
    if (row.ours == "layers.#.norm2.weight") row.theirs = "layers.#.pre_feedforward_layernorm.weight";
  names.rows.push_back({"layers.#.norm1b.weight", "layers.#.post_attention_layernorm.weight"});
  names.rows.push_back({"layers.#.norm2b.weight", "layers.#.post_feedforward_layernorm.weight"});
  return {decoder_model(call, std::move(o)), std::move(names)};
}

DecoderDefaults sizes() {
  return {.vocabulary = 256000,
          .hidden = 2304,
          .ffn = 9216,
          .layers = 26,
          .heads = 8,
          .kv_heads = 4,
          .places = 8192,
          .features = 256,
          .tied = true,
          .padding = 0};
}

BuiltFamily gemma3(const FamilyCall& call) {
  const Config& c = call.config;
  DecoderDefaults defaults = sizes();
  defaults.vocabulary = 262208;
  defaults.places = 131072;
  defaults.base = 1e6;
  // One set of positions for layers with a window, one for the others; or, in older configs, a base for the former.
  const std::optional<Config> both = c.inside("rope_parameters");
  defaults.rotary_by_layer = both && (both->has("full_attention") || both->has("sliding_attention"));
  DecoderOptions o = decoder_options(call, defaults);
  o.heads_as.norm = HeadNorm::of_each_head;
  o.heads_as.epsilon = o.epsilon;
  o.heads_as.norm_from_one = true;
  o.heads_in_windows = o.heads_as;
  DecoderDefaults local = defaults;
  local.base = c.number_or("rope_local_base_freq", 10000);
  const auto of_layers = [&](const char* type) {
    return Config(c.path(), Json{{"rope_parameters", both->json_of(type)}});
  };
  if (defaults.rotary_by_layer) {
    set_rotary(call, o, o.heads_as, of_layers("full_attention"), defaults);
    set_rotary(call, o, *o.heads_in_windows, of_layers("sliding_attention"), local);
    both->check_all_read();
  } else {
    set_rotary(call, o, *o.heads_in_windows, Config(c.path(), Json::object()), local);
  }
  const std::int64_t pattern = c.integer_or(
      c.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern", 6, 1);
  return gemma_model(call, std::move(o),
                     {.has_window = [pattern](std::int64_t layer) { return (layer + 1) % pattern != 0; }});
}

}  // namespace

std::vector<Family> gemma() {
  const std::vector<std::string> inputs{"attention_mask", "position_ids"};
  const auto gemma2 = [](const FamilyCall& call) {
    return gemma_model(
        call, decoder_options(call, sizes()),
        {.heads_cap = 50, .scores_cap = 30, .has_window = [](std::int64_t layer) { return layer % 2 == 0; }});
  };
  return {{"gemma2", {"Gemma2ForCausalLM"}, inputs, gemma2},
          {"gemma3_text", {"Gemma3ForCausalLM"}, inputs, gemma3}};
}

}  // namespace shardwright::families
