#include <algorithm>
#include <limits>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/huggingface/family.h"
#include "shardwright/frontend/huggingface/rotary_scaling.h"
#include "shardwright/frontend/mixed_precision.h"
#include "shardwright/frontend/modules/losses.h"
#include "shardwright/ops/calls.h"

namespace shardwright::huggingface {
namespace {

constexpr std::int64_t most_layers = 4096, most_width = 1 << 20, most_places = std::int64_t{1} << 24;
constexpr std::int64_t usual_sequence = 4096;

/// One step of sequences: a token of each, or the first, which takes prompts.
Model step_of(const FamilyCall& call, const Decoder& decoder) {
  const ModelArguments& arguments = call.arguments;
  Trace trace(arguments.precision);
  const bool is_first = arguments.prompt > 0;
  const Type tokens{DType::i32, {call.batch(), is_first ? arguments.prompt : 1}};
  const Traced input = trace.input("input", tokens);
  Cached cached{.places = trace.input("places", tokens), .room = arguments.cached, .is_first = is_first};
  if (is_first) cached.last = trace.input("last", {DType::i32, {call.batch()}});
  const Traced scores = decoder(input, &cached);
  Model model{.graph = std::move(trace.graph()), .constraints = trace.constraints()};
  model.graph.outputs = {scores.id};
  model.graph = with_precision(std::move(model.graph), arguments.precision);
  model.labels.classes = decoder.options.vocabulary;
  return model;
}

}  // namespace

std::int64_t FamilyCall::sequence(std::int64_t places, Positions positions) const {
  const std::int64_t out = arguments.integer("seq", std::min(places, usual_sequence));
  if (out > places && positions == Positions::learned)
    throw error("seq={}: the network has {} places", out, places);
  return out;
}

bool FamilyCall::brings(const std::string& input) const {
  const std::string said = arguments.text("inputs", "");
  return std::ranges::any_of(split(said, '.'), [&](std::string_view one) { return one == input; });
}

bool FamilyCall::has_tensor(const std::string& name, bool otherwise) const {
  if (!weights) return otherwise;
  const std::vector<std::string> names = weights->names();
  return std::ranges::find(names, name) != names.end();
}

double FamilyCall::dropout(const std::string& key, double otherwise) const {
  const std::string said = arguments.text("dropout", "");
  if (!said.empty() && said != "0") throw error("dropout={}: should be 0, which leaves it out", said);
  const double rate = config.number_or(key, otherwise);
  if (!(rate >= 0 && rate < 1)) throw config.wrong(key, "at least 0 and less than 1");
  return said.empty() && arguments.cached == 0 ? rate : 0;
}

void FamilyCall::check_layers_stay(const std::string& key) const {
  if (dropout(key, 0) > 0)
    throw error(
        "{}: \"{}\" is {}: layers that are left out by chance are not supported; the key dropout=0 "
        "(FOLDER:dropout=0) leaves out that and all dropout",
        config.path(), key, config.number_or(key, 0));
}

namespace {

void check_loss(const FamilyCall& call) {
  if (!call.arguments.loss.empty() && call.arguments.loss != "cross_entropy")
    throw error("loss '{}' is not possible: the network scores classes, its loss is cross_entropy",
                call.arguments.loss);
}

}  // namespace

Model class_model(const FamilyCall& call, Trace& trace, Traced scores, const std::string& called) {
  check_loss(call);
  const Shape shape = scores.type().shape;
  const Traced label = trace.input("label", {DType::i32, {shape[0]}});
  Model model = finish_model(trace, CrossEntropyLoss{}(scores, label), scores);
  model.labels.classes = shape[1];
  model.has_attention = true;
  model.data_names = {{"input", {called}}, {"label", {"labels"}}};
  return model;
}

Model language_model(const FamilyCall& call, Trace& trace, Traced scores, bool is_of_next,
                     std::optional<Traced> given) {
  check_loss(call);
  const Shape shape = scores.type().shape;
  const DType kept = trace.kept_precision();
  const Traced label = given ? *given : trace.input("label", {DType::i32, {shape[0], shape[1]}});
  const Traced weight = trace.input("label.weight", {kept, {shape[0]}});
  Model model = finish_model(trace, AskedCrossEntropyLoss{}(scores, label, weight), scores);
  model.labels.classes = shape[2];
  model.tokens = shape[0] * shape[1];
  model.has_attention = true;
  model.label_weights = "label.weight";
  model.data_names = {{"input", {"input_ids"}}, {"label", {"labels", is_of_next}}};
  return model;
}

Model decoder_model(const FamilyCall& call, DecoderOptions options) {
  options.explicit_attention = call.arguments.attention == Attention::in_memory;
  call.config.check_all_read();
  const Decoder decoder(options);
  if (call.arguments.cached > 0) {
    Model model = step_of(call, decoder);
    model.places = options.sequence;
    return model;
  }
  const std::string documents = call.arguments.text("documents", "");
  if (!documents.empty() && documents != "apart" && documents != "together")
    throw error("documents={}: should be apart or together", documents);
  Trace trace(call.arguments.precision);
  const Type tokens{DType::i32, {call.batch(), options.sequence}};
  const Traced input = trace.input("input", tokens);
  DecoderData data;
  if (call.brings("attention_mask")) data.attention_mask = trace.input("attention_mask", tokens);
  if (call.brings("position_ids")) data.positions = trace.input("position_ids", tokens);
  // As transformers has it, which asks whether a cache is used.
  const bool is_apart = documents.empty() ? !call.config.flag_or("use_cache", true) && !data.attention_mask
                                          : documents == "apart";
  data.are_apart = data.positions && is_apart;
  Model model = language_model(call, trace, decoder(input, nullptr, data), true);
  model.places = options.sequence;
  const std::int64_t places = call.config.integer_or("max_position_embeddings", options.sequence, 1);
  if (options.sequence > places)
    model.notices.push_back(fmt::format("{}: sequences of {} elements, but it was made for {}",
                                        call.config.path(), options.sequence, places));
  if (data.positions && !is_apart)
    model.notices.push_back(
        fmt::format("{}: documents that are packed into one row see those before them, as transformers has "
                    "it with this config; "
                    "the key documents=apart keeps them apart",
                    call.config.path()));
  return model;
}

void set_rotary(const FamilyCall& call, const DecoderOptions& o, SelfAttention::Options& heads,
                const Config& said, const DecoderDefaults& defaults) {
  const std::int64_t places =
      call.config.integer_or("max_position_embeddings", defaults.places, 1, most_places);
  const RotaryRates rates = rotary_rates(
      said, {.features = heads.features,
             .sequence = call.arguments.cached > 0 ? call.arguments.cached : o.sequence,
             .places = places,
             .original = call.config.given_integer("original_max_position_embeddings", 1, most_places),
             .base = defaults.base,
             .share = defaults.rotary_share});
  heads.base = rates.base;
  heads.rates = rates.rates;
  heads.turned = rates.turned;
  heads.turned_scale = rates.scale;
}

DecoderOptions decoder_options(const FamilyCall& call, const DecoderDefaults& defaults) {
  const Config& c = call.config;
  DecoderOptions o;
  o.hidden = c.integer_or("hidden_size", defaults.hidden, 1, most_width);
  o.layers = c.integer_or("num_hidden_layers", defaults.layers, 1, most_layers);
  o.heads = c.integer_or("num_attention_heads", defaults.heads, 1, most_width);
  const bool means_heads = defaults.kv_heads == 0 || c.says("num_key_value_heads");  // as null
  o.kv_heads = c.integer_or("num_key_value_heads", means_heads ? o.heads : defaults.kv_heads, 1, most_width);
  if (o.heads % o.kv_heads != 0)
    throw c.wrong("num_key_value_heads", fmt::format("a divisor of the {} heads", o.heads));
  o.ffn = c.integer_or("intermediate_size", defaults.ffn, 1, 16 * most_width);
  o.vocabulary = c.integer_or("vocab_size", defaults.vocabulary, 1, std::numeric_limits<std::int32_t>::max());
  const std::int64_t places = c.integer_or("max_position_embeddings", defaults.places, 1, most_places);
  o.sequence = call.arguments.cached > 0 ? places : call.sequence(places, Positions::rotary);
  std::int64_t features = c.integer_or("head_dim", defaults.features, 1, most_width);
  if (features == 0 && o.hidden % o.heads != 0)
    throw c.wrong("num_attention_heads", fmt::format("a divisor of the hidden size {}", o.hidden));
  if (features == 0) features = o.hidden / o.heads;
  o.heads_as.features = features;
  if (!defaults.rotary_by_layer) set_rotary(call, o, o.heads_as, c, defaults);
  o.tied_head = c.flag_or("tie_word_embeddings", defaults.tied);
  o.epsilon = c.number_or(defaults.epsilon_key, defaults.epsilon);
  if (const auto padding = c.given_integer("pad_token_id", -1, o.vocabulary - 1))
    o.padding = *padding < 0 ? o.vocabulary - 1 : *padding;
  else if (!c.says("pad_token_id"))
    o.padding = defaults.padding;
  o.heads_as.dropout = call.dropout("attention_dropout", 0);
  return o;
}

void read_windows(const FamilyCall& call, DecoderOptions& options, std::int64_t window,
                  const std::function<bool(std::int64_t layer)>& by_layer) {
  const std::vector<std::string> types = call.config.texts("layer_types");
  if (!types.empty() && std::ssize(types) != options.layers)
    throw error("{}: \"layer_types\" has {} entries, but there are {} layers", call.config.path(),
                types.size(), options.layers);
  options.windows.clear();
  for (std::int64_t l = 0; l < options.layers; ++l) {
    bool is_window = window > 0 && (!by_layer || by_layer(l));
    if (!types.empty()) {
      const std::string& type = types[static_cast<std::size_t>(l)];
      if (type != "sliding_attention" && type != "full_attention")
        throw error("{}: \"layer_types\" has '{}'; there are full_attention and sliding_attention",
                    call.config.path(), type);
      is_window = type == "sliding_attention";
    }
    if (is_window && window == 0 && !types.empty())
      throw error("{}: \"layer_types\" has sliding_attention, but there is no \"sliding_window\"",
                  call.config.path());
    options.windows.push_back(is_window ? window : 0);
  }
}

Activation activation_of(const Config& config, const std::string& key, const std::string& otherwise,
                         bool is_gated) {
  const std::string name = config.text_or(key, otherwise);
  if (is_gated) {
    if (name == "silu" || name == "swish") return Activation::swiglu;
    if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
      return Activation::gated_gelu;
    throw config.wrong(key, "silu or gelu_pytorch_tanh");
  }
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return Activation::gelu;
  if (name == "gelu") return Activation::exact_gelu;
  if (name == "quick_gelu") return Activation::fast_gelu;
  if (name == "relu") return Activation::relu;
  throw config.wrong(key, "gelu, gelu_new, gelu_pytorch_tanh, quick_gelu or relu");
}

Names llama_names(const std::string& network) {
  const std::string layer = "layers.#.", theirs = "layers.#.";
  Names out{.rows = {{"embedding.weight", "embed_tokens.weight"},
                     {"norm.weight", "norm.weight"},
                     {"head.weight", "lm_head.weight", Lay::transposed},
                     {layer + "norm1.weight", theirs + "input_layernorm.weight"},
                     {layer + "norm2.weight", theirs + "post_attention_layernorm.weight"},
                     {layer + "attention.q.norm.weight", theirs + "self_attn.q_norm.weight"},
                     {layer + "attention.k.norm.weight", theirs + "self_attn.k_norm.weight"}},
            .prefix = "model.",
            .outside = {"lm_head.weight"},
            .ignored = {"layers.#.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq", "lm_head.weight"}};
  for (const std::string part : {"q", "k", "v", "o"})
    out.add_of_layer("attention." + part, theirs, "self_attn." + part + "_proj", Lay::transposed);
  for (const std::string part : {"gate", "up", "down"})
    out.add_of_layer("ffn." + part, theirs, network + "." + part + "_proj", Lay::transposed);
  return out;
}

Names expert_names(const std::string& router, const std::string& experts, const std::string& gate,
                   const std::string& up, const std::string& down) {
  Names out = llama_names();
  const std::string ours = "layers.#.ffn.", theirs = "layers.#.";
  std::erase_if(out.rows, [&](const NameRow& row) { return row.ours.starts_with(ours); });
  out.rows.push_back({ours + "router.weight", theirs + router + ".weight", Lay::transposed});
  for (const auto& [own, name] : {std::pair("gate", gate), {"up", up}, {"down", down}})
    out.rows.push_back({ours + own, fmt::format("{}{}.@.{}.weight", theirs, experts, name), Lay::transposed});
  return out;
}

}  // namespace shardwright::huggingface
