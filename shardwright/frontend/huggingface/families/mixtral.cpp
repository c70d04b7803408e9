// Mixtral: as Llama, with experts; the loss that balances them is not part of what is trained.

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

std::vector<Family> mixtral() {
  const auto mixtral = [](const FamilyCall& call) {
    const Config& c = call.config;
    DecoderOptions o =
        decoder_options(call, {.ffn = 14336, .kv_heads = 8, .places = 131072, .base = 1e6, .epsilon = 1e-5});
    o.activation = activation_of(c, "hidden_act", "silu", true);
    const std::int64_t experts = c.integer_or("num_local_experts", 8, 1, 4096);
    o.experts = MixtureOfExperts::Options{.experts = experts,
                                          .chosen = c.integer_or("num_experts_per_tok", 2, 1, experts)};
    c.only("output_router_logits", false, "the loss would have a part that balances experts");
    c.only("router_jitter_noise", 0.0, "what the router reads would be noisy");
    c.pass_over({"router_aux_loss_coef"});
    const std::int64_t window = c.integer_or("sliding_window", 0, 0);
    read_windows(call, o, window, [window](std::int64_t) { return window > 0; });
    const Names names = expert_names("block_sparse_moe.gate", "block_sparse_moe.experts", "w1", "w3", "w2");
    return BuiltFamily{decoder_model(call, o), names};
  };
  return {{"mixtral", {"MixtralForCausalLM"}, {"attention_mask", "position_ids"}, mixtral}};
}

}  // namespace shardwright::families
