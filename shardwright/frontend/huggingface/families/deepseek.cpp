// DeepSeek V3: queries, keys and values through products of low rank, of which only some features turn; experts that are chosen by
// sigmoids and a frozen correction, first whole groups of them, beside one network that all elements have.

#include <cmath>

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

/// Of attention's scores: as yarn has it where sequences are longer than the first ones.
double scale_of(const Config& c, std::int64_t features) {
  const double plain = 1 / std::sqrt(static_cast<double>(features));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto said = c.inside(key);
    if (!said) continue;
    const std::string kind = said->text_or("rope_type", said->text_or("type", "default"));
    const double all = said->number_or("mscale_all_dim", 0);
    if (kind == "default" || all == 0) return plain;
    const double factor = said->number_or("factor", 1);
    const double by = factor <= 1 ? 1 : 0.1 * all * std::log(factor) + 1;
    return plain * by * by;
  }
  return plain;
}

LatentOptions latent_of(const Config& c) {
  LatentOptions o;
  const bool has_queries = c.has("q_lora_rank") || !c.says("q_lora_rank");
  o.query_rank = has_queries ? c.integer_or("q_lora_rank", 1536, 1, 1 << 20) : 0;
  o.rank = c.integer_or("kv_lora_rank", 512, 1, 1 << 20);
  o.plain = c.integer_or("qk_nope_head_dim", 128, 1, 1 << 20);
  o.turned = c.integer_or("qk_rope_head_dim", 64, 2, 1 << 20);
  o.values = c.integer_or("v_head_dim", 128, 1, 1 << 20);
  o.bias = c.flag_or("attention_bias", false);
  o.interleaved = c.flag_or("rope_interleave", true);
  if (o.turned % 2 != 0) throw c.wrong("qk_rope_head_dim", "even");
  return o;
}

MixtureOfExperts::Options experts_of(const Config& c) {
  MixtureOfExperts::Options o{.by_sigmoid = true};
  o.experts = c.integer_or("n_routed_experts", 256, 1, 1 << 16);
  o.chosen = c.integer_or("num_experts_per_tok", 8, 1, o.experts);
  o.scaled = c.flag_or("norm_topk_prob", true);
  o.inner = c.integer_or("moe_intermediate_size", 2048, 1, 1 << 24);
  o.groups = c.integer_or("n_group", 8, 1, o.experts);
  if (o.experts % o.groups != 0 || o.experts / o.groups < 2)
    throw c.wrong("n_group", fmt::format("such that {} experts are in groups of at least 2", o.experts));
  o.chosen_groups = c.integer_or("topk_group", 4, 1, o.groups);
  o.factor = c.number_or("routed_scaling_factor", 2.5);
  o.shared = o.inner * c.integer_or("n_shared_experts", 1, 1, 1 << 10);
  c.only("moe_layer_freq", 1, "some layers would have no experts");
  c.only("scoring_func", "sigmoid", "experts would be chosen otherwise");
  c.only("topk_method", "noaux_tc", "experts would be chosen otherwise");
  c.only("output_router_logits", false, "the loss would have a part that balances experts");
  c.pass_over({"aux_loss_alpha", "seq_aux", "ep_size", "router_aux_loss_coef", "num_nextn_predict_layers",
               "num_mtp_layers", "num_local_experts", "qk_head_dim", "head_dim"});
  return o;
}

Names names() {
  Names out = expert_names("mlp.gate", "mlp.experts", "gate_proj", "up_proj", "down_proj");
  const std::string ours = "layers.#.", theirs = "layers.#.";
  const auto both = [&](const std::string& own, const std::string& called, Lay lay = Lay::transposed) {
    out.add_of_layer(own, theirs, called, lay);
  };
  std::erase_if(out.rows, [](const NameRow& row) { return row.ours.find("attention.q.") != row.ours.npos; });
  both("attention.q", "self_attn.q_proj");
  both("attention.q.down", "self_attn.q_a_proj");
  both("attention.q.norm", "self_attn.q_a_layernorm", Lay::same);
  both("attention.q.up", "self_attn.q_b_proj");
  both("attention.kv.down", "self_attn.kv_a_proj_with_mqa");
  both("attention.kv.norm", "self_attn.kv_a_layernorm", Lay::same);
  both("attention.kv.up", "self_attn.kv_b_proj");
  out.rows.push_back({ours + "ffn.router.correction", theirs + "mlp.gate.e_score_correction_bias"});
  for (const std::string part : {"gate", "up", "down"}) {
    both("ffn." + part, "mlp." + part + "_proj");
    both("ffn.shared." + part, "mlp.shared_experts." + part + "_proj");
  }
  return out;
}

}  // namespace

std::vector<Family> deepseek() {
  const auto build = [](const FamilyCall& call) {
    const Config& c = call.config;
    const DecoderDefaults defaults{.vocabulary = 129280,
                                   .hidden = 7168,
                                   .ffn = 18432,
                                   .layers = 61,
                                   .heads = 128,
                                   .kv_heads = 128,
                                   .places = 4096,
                                   .features = 64,
                                   .rotary_by_layer = true};
    DecoderOptions o = decoder_options(call, defaults);
    if (o.kv_heads != o.heads)
      throw c.wrong("num_key_value_heads", fmt::format("{}, as there are heads", o.heads));
    o.activation = activation_of(c, "hidden_act", "silu", true);
    SelfAttention::Options& heads = o.heads_as;
    heads.latent = latent_of(c);
    heads.features = heads.latent->turned;
    set_rotary(call, o, heads, c, defaults);
    heads.turned = 0;
    heads.scale = scale_of(c, heads.latent->plain + heads.latent->turned);
    o.out_bias = heads.latent->bias;
    o.experts = experts_of(c);
    o.first_expert_layer = c.integer_or("first_k_dense_replace", 3, 0, 4096);
    return BuiltFamily{decoder_model(call, o), names()};
  };
  return {{"deepseek_v3", {"DeepseekV3ForCausalLM"}, {"attention_mask", "position_ids"}, build}};
}

}  // namespace shardwright::families
