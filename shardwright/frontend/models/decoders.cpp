// Decoder language models: the families llama and gpt with sizes by keys, and the models that are members of them.

#include <cmath>
#include <limits>

#include "shardwright/frontend/data_columns.h"
#include "shardwright/frontend/decoder_keys.h"
#include "shardwright/frontend/mixed_precision.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"

namespace shardwright::models {
namespace {

/// A member of a family: its sizes, which keys override. An ffn or kv_heads of 0 follows from the others.
struct Member {
  std::string name;
  std::string doc;
  DecoderOptions options;
  std::int64_t batch = 4;
  std::string trained_by =
      {};  // who trained it with 4 million tokens a step; empty: it is no published model
};

constexpr std::int64_t trained_tokens = 4 << 20;

constexpr std::int64_t most_layers = 4096;

DecoderOptions sizes_of(const ModelArguments& arguments, const DecoderOptions& member) {
  DecoderOptions o = with_forms(arguments, member);
  o.layers = arguments.integer("layers", member.layers);
  if (o.layers > most_layers)
    throw error(
        "layers={}: at most {} are read, which take minutes to plan; the time grows with the square of their "
        "number",
        o.layers, most_layers);
  o.hidden = arguments.integer("hidden", member.hidden);
  o.heads = arguments.integer("heads", member.heads);
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  o.ffn = arguments.integer("ffn", member.ffn ? member.ffn : 4 * o.hidden);
  o.vocabulary = arguments.integer("vocab", member.vocabulary);
  o.sequence = arguments.integer("seq", member.sequence);
  if (o.experts) {
    o.experts->inner = arguments.integer("ffn", member.experts->inner);
    o.experts->shared = o.shared_experts * o.experts->inner;
    o.ffn = arguments.integer("dense_ffn", member.ffn ? member.ffn : 4 * o.hidden);
  }
  if (const auto& latent = o.heads_as.latent) {
    o.heads_as.features = latent->turned;
    o.heads_as.scale = 1 / std::sqrt(static_cast<double>(latent->plain + latent->turned));
  }
  if (arguments.keys.contains("places")) o.places = arguments.integer("places", o.sequence);
  if (o.places > 0 && o.positions != Positions::learned)
    throw error("places={}: only positions=learned has so many of its own; leave it out", o.places);
  if (o.places > 0 && o.places < o.sequence)
    throw error("places={}: sequences have {}", o.places, o.sequence);
  o.explicit_attention = arguments.attention == Attention::in_memory;
  if (o.vocabulary > std::numeric_limits<std::int32_t>::max())
    throw error("vocab={}: tokens are i32, there can be {}", o.vocabulary,
                std::numeric_limits<std::int32_t>::max());
  return o;
}

/// One step of sequences: a token of each, from the caches of those before; or the first, which fills the caches.
Model build_step(const ModelArguments& arguments, const Decoder& decoder, std::int64_t batch) {
  Trace trace(arguments.precision);
  const bool is_first = arguments.prompt > 0;
  const Type tokens{DType::i32, {batch, is_first ? arguments.prompt : 1}};
  const Traced input = trace.input("input", tokens);
  Cached cached{.places = trace.input("places", tokens), .room = arguments.cached, .is_first = is_first};
  if (is_first) cached.last = trace.input("last", {DType::i32, {batch}});
  const Traced scores = decoder(input, &cached);
  Model model{.graph = std::move(trace.graph()), .constraints = trace.constraints()};
  model.graph.outputs = {scores.id};
  model.graph = with_precision(std::move(model.graph), arguments.precision);
  return model;
}

/// Whether a key says the second of two. Throws: Error if it says neither.
bool is_second(const ModelArguments& arguments, const std::string& key, const std::string& first,
               const std::string& second) {
  const std::string said = arguments.text(key, first);
  if (said != first && said != second) throw error("{}={}: should be {} or {}", key, said, first, second);
  return said == second;
}

/// The loss is the mean over all tokens, or over all labels that are asked for.
Model build(const ModelArguments& arguments, const Member& member) {
  if (!arguments.loss.empty() && arguments.loss != "cross_entropy")
    throw error("loss '{}' is not possible: a decoder scores classes, its loss is cross_entropy",
                arguments.loss);
  const Decoder decoder(sizes_of(arguments, member.options));
  const std::int64_t batch = arguments.integer("batch", member.batch);
  if (arguments.cached > 0) {
    if (!decoder.options.heads_as.is_causal)
      throw error("causal=0: tokens see later ones, so that they cannot be made one after the other");
    Model step = build_step(arguments, decoder, batch);
    step.labels.classes = decoder.options.vocabulary;
    step.places = decoder.options.sequence;
    return step;
  }
  Trace trace(arguments.precision);
  const Type tokens{DType::i32, {batch, decoder.options.sequence}};
  const bool is_apart = is_second(arguments, "documents", "together", "apart");
  const bool is_asked = is_second(arguments, "labels", "all", "asked") || is_apart;
  const Traced input = trace.input("input", tokens), label = trace.input("label", tokens);
  DecoderData data{.are_apart = is_apart};
  if (is_apart) data.positions = trace.input(places_name, tokens);
  const Traced scores = decoder(input, nullptr, data);
  Traced loss;
  if (is_asked) {
    const Type weights{trace.kept_precision(), {batch}};
    loss = AskedCrossEntropyLoss{}(scores, label, trace.input("label.weight", weights));
  } else {
    loss = CrossEntropyLoss{}(scores, label);
  }
  Model model = finish_model(trace, loss, scores);
  if (is_asked) model.label_weights = "label.weight";
  model.labels.classes = decoder.options.vocabulary;
  model.tokens = element_count(tokens.shape);
  model.has_attention = true;
  if (decoder.options.heads_as.dropout > 0 && arguments.attention == Attention::flash)
    model.warnings.push_back(fmt::format(
        "attention_dropout={}: the weights that it is of lie in memory, as with --attention explicit",
        decoder.options.heads_as.dropout));
  return model;
}

ModelDef definition(const Member& member) {
  const DecoderOptions& o = member.options;
  std::map<std::string, std::string> keys{
      {"layers", std::to_string(o.layers)},    {"hidden", std::to_string(o.hidden)},
      {"heads", std::to_string(o.heads)},      {"ffn", o.ffn ? std::to_string(o.ffn) : "4*hidden"},
      {"vocab", std::to_string(o.vocabulary)}, {"seq", std::to_string(o.sequence)},
      {"batch", std::to_string(member.batch)}, {"labels", "all"}};
  if (o.experts) {
    keys["ffn"] = std::to_string(o.experts->inner);
    keys["dense_ffn"] = o.ffn ? std::to_string(o.ffn) : "4*hidden";
  }
  if (!o.query_layer) keys["documents"] = "together";
  if (o.positions == Positions::learned && !o.query_layer) keys["places"] = "seq";
  keys.merge(keys_of_forms(o));
  const std::int64_t trained = member.trained_by.empty() ? 0 : trained_tokens / o.sequence;
  return {.name = member.name,
          .doc = member.doc,
          .keys = std::move(keys),
          .trained = {trained, member.trained_by, trained > 0 ? trained_tokens : 0},
          .build = [member](const ModelArguments& a) { return build(a, member); }};
}

struct Sizes {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocabulary, sequence;
};

DecoderOptions with_sizes(DecoderOptions o, const Sizes& s) {
  o.layers = s.layers;
  o.hidden = s.hidden;
  o.heads = s.heads;
  o.kv_heads = s.kv_heads;
  o.ffn = s.ffn;
  o.vocabulary = s.vocabulary;
  o.sequence = s.sequence;
  return o;
}

DecoderOptions llama(const Sizes& sizes) { return with_sizes({}, sizes); }

DecoderOptions baichuan2(const Sizes& sizes, Positions positions) {
  return with_sizes({.positions = positions, .epsilon = 1e-6}, sizes);
}

DecoderOptions qwen(const Sizes& sizes) { return with_sizes({.epsilon = 1e-6, .qkv_bias = true}, sizes); }

DecoderOptions gpt(const Sizes& sizes) {
  return with_sizes({.positions = Positions::learned,
                     .activation = Activation::gelu,
                     .layer_norm = true,
                     .qkv_bias = true,
                     .bias = true,
                     .tied_head = true},
                    sizes);
}

DecoderOptions pangualpha(const Sizes& sizes) {
  DecoderOptions o = gpt(sizes);
  o.activation = Activation::fast_gelu;
  o.query_layer = true;
  return o;
}

/// Of layers with experts, each of `ffn` inner features; those before the first of them have `s.ffn`.
DecoderOptions experts(DecoderOptions o, std::int64_t ffn, MixtureOfExperts::Options mixture) {
  mixture.inner = ffn;
  o.experts = mixture;
  return o;
}

DecoderOptions mixtral(const Sizes& sizes) {
  return experts(with_sizes({.epsilon = 1e-5}, sizes), sizes.ffn, {.experts = 8, .chosen = 2});
}

DecoderOptions qwen3_experts(const Sizes& sizes, std::int64_t ffn) {
  DecoderOptions o = with_sizes({.epsilon = 1e-6}, sizes);
  o.heads_as.features = 128;
  o.heads_as.norm = HeadNorm::of_each_head;
  o.heads_as.epsilon = o.epsilon;
  o.heads_as.base = 1e6;
  return experts(o, ffn, {.experts = 128, .chosen = 8});
}

/// Latent attention; experts that are chosen by sigmoids and a correction, first whole groups of them.
DecoderOptions deepseek(const Sizes& sizes, std::int64_t dense_layers, std::int64_t ffn,
                        const LatentOptions& latent, const MixtureOfExperts::Options& mixture) {
  DecoderOptions o = with_sizes({.epsilon = 1e-6}, sizes);
  o.heads_as.latent = latent;
  o.first_expert_layer = dense_layers;
  o.shared_experts = 1;
  return experts(o, ffn, mixture);
}

}  // namespace

std::vector<ModelDef> decoders() {
  const std::string llama2 = "Touvron et al., 2023", qwen_report = "Bai et al., 2023",
                    like_llama2 = "as LLaMA2, its own is not published";
  const std::vector<Member> members{
      {"llama", "decoder with RMS norm, rotary positions, swiglu and grouped heads",
       llama({4, 512, 8, 0, 1376, 8192, 256})},
      {"gpt", "decoder as GPT-2: layer norm, learned positions, gelu, biases, the head tied to the embedding",
       gpt({4, 512, 8, 0, 0, 8192, 256})},
      {"llama2-7b", "LLaMA2 7B", llama({32, 4096, 32, 0, 11008, 32000, 4096}), 8, llama2},
      {"llama2-13b", "LLaMA2 13B", llama({40, 5120, 40, 0, 13824, 32000, 4096}), 16, llama2},
      {"llama2-70b", "LLaMA2 70B: eight heads of keys and values",
       llama({80, 8192, 64, 8, 28672, 32000, 4096}), 1, llama2},
      {"baichuan2-7b", "Baichuan2 7B", baichuan2({32, 4096, 32, 0, 11008, 125696, 4096}, Positions::rotary),
       8, like_llama2},
      {"baichuan2-13b", "Baichuan2 13B: ALiBi instead of rotary positions",
       baichuan2({40, 5120, 40, 0, 13696, 125696, 4096}, Positions::alibi), 8, like_llama2},
      {"qwen-7b", "Qwen 7B: biases of queries, keys and values", qwen({32, 4096, 32, 0, 11008, 151936, 8192}),
       2, qwen_report},
      {"qwen-14b", "Qwen 14B", qwen({40, 5120, 40, 0, 13696, 152064, 8192}), 2, qwen_report},
      {"pangualpha-2.6b", "PanguAlpha 2.6B: fast gelu, and a last layer that asks with learned queries",
       pangualpha({32, 2560, 32, 0, 0, 40000, 1024}), 16, like_llama2},
      {"pangualpha-13b", "PanguAlpha 13B", pangualpha({40, 5120, 40, 0, 0, 40000, 1024}), 8, like_llama2},
      {"moe", "llama with a mixture of experts in each layer",
       experts(llama({4, 512, 8, 0, 0, 8192, 256}), 1376, {.experts = 8, .chosen = 2})},
      {"mixtral-8x7b", "Mixtral 8x7B: two of eight experts", mixtral({32, 4096, 32, 8, 14336, 32000, 4096}),
       8, like_llama2},
      {"mixtral-8x22b", "Mixtral 8x22B", mixtral({56, 6144, 48, 8, 16384, 32768, 4096}), 8, like_llama2},
      {"qwen3-30b", "Qwen3 30B-A3B: eight of 128 experts",
       qwen3_experts({48, 2048, 32, 4, 6144, 151936, 4096}, 768), 8, like_llama2},
      {"qwen3-235b", "Qwen3 235B-A22B: eight of 128 experts",
       qwen3_experts({94, 4096, 64, 4, 12288, 151936, 4096}, 1536), 8, like_llama2},
      {"deepseek-v3",
       "DeepSeek V3: latent attention, eight of 256 experts and a shared one, three dense layers",
       deepseek(
           {61, 7168, 128, 0, 18432, 129280, 4096}, 3, 2048,
           {.query_rank = 1536, .rank = 512, .plain = 128, .turned = 64, .values = 128},
           {.experts = 256, .chosen = 8, .by_sigmoid = true, .groups = 8, .chosen_groups = 4, .factor = 2.5}),
       1, like_llama2}};
  std::vector<ModelDef> out;
  for (const Member& m : members) out.push_back(definition(m));
  return out;
}

}  // namespace shardwright::models
