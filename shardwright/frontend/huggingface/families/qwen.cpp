// Qwen 2 and 3: as Llama, with biases of queries, keys and values (2) or norms of heads (3), and windows in later layers.

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

/// What both have: `sliding_window` counts only where `use_sliding_window` says so, from layer `max_window_layers` on.
void read_qwen(const FamilyCall& call, DecoderOptions& o) {
  const Config& c = call.config;
  o.activation = activation_of(c, "hidden_act", "silu", true);
  const bool has_window = c.flag_or("use_sliding_window", false);
  const std::int64_t said = c.integer_or("sliding_window", 4096, 0),
                     first = c.integer_or("max_window_layers", 28, 0);
  const std::int64_t window = has_window ? said : 0;
  read_windows(call, o, window, [first](std::int64_t layer) { return layer >= first; });
}

/// And of the third: heads are normed.
void read_qwen3(const FamilyCall& call, DecoderOptions& o) {
  read_qwen(call, o);
  o.qkv_bias = call.config.flag_or("attention_bias", false);
  o.out_bias = o.qkv_bias;
  o.heads_as.norm = HeadNorm::of_each_head;
  o.heads_as.epsilon = o.epsilon;
}

}  // namespace

std::vector<Family> qwen() {
  const auto qwen2 = [](const FamilyCall& call) {
    DecoderOptions o =
        decoder_options(call, {.vocabulary = 151936, .ffn = 22016, .kv_heads = 32, .places = 32768});
    read_qwen(call, o);
    o.qkv_bias = true;
    return BuiltFamily{decoder_model(call, o), llama_names()};
  };
  const auto qwen3 = [](const FamilyCall& call) {
    DecoderOptions o = decoder_options(
        call, {.vocabulary = 151936, .ffn = 22016, .kv_heads = 32, .places = 32768, .features = 128});
    read_qwen3(call, o);
    return BuiltFamily{decoder_model(call, o), llama_names()};
  };
  const auto qwen3_moe = [](const FamilyCall& call) {
    const Config& c = call.config;
    DecoderOptions o = decoder_options(
        call,
        {.vocabulary = 151936, .hidden = 2048, .ffn = 6144, .layers = 24, .kv_heads = 4, .places = 32768});
    read_qwen3(call, o);
    o.ffn = c.integer_or("moe_intermediate_size", 768, 1, 1 << 24);
    const std::int64_t experts =
        c.integer_or(c.has("num_experts") ? "num_experts" : "num_local_experts", 128, 1, 4096);
    o.experts = MixtureOfExperts::Options{.experts = experts,
                                          .chosen = c.integer_or("num_experts_per_tok", 8, 1, experts),
                                          .scaled = c.flag_or("norm_topk_prob", false)};
    c.only("decoder_sparse_step", 1, "some layers would have no experts");
    c.only("mlp_only_layers", Json::array(), "some layers would have no experts");
    c.only("output_router_logits", false, "the loss would have a part that balances experts");
    c.pass_over({"router_aux_loss_coef", "num_local_experts"});
    return BuiltFamily{decoder_model(call, o),
                       expert_names("mlp.gate", "mlp.experts", "gate_proj", "up_proj", "down_proj")};
  };
  return {{"qwen3_moe", {"Qwen3MoeForCausalLM"}, {"attention_mask", "position_ids"}, qwen3_moe},
          {"qwen2", {"Qwen2ForCausalLM"}, {"attention_mask", "position_ids"}, qwen2},
          {"qwen3", {"Qwen3ForCausalLM"}, {"attention_mask", "position_ids"}, qwen3}};
}

}  // namespace shardwright::families
