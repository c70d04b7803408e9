#include "shardwright/frontend/decoder_keys.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "shardwright/base/given.h"

namespace shardwright {
namespace {

/// A key, how its value is read and what it is.
struct DecoderForm {
  std::string key;
  void (*read)(DecoderOptions&, const Given&);
  std::string (*print)(const DecoderOptions&);
};

/// What each of `words` stands for, in their order.
template <class T, std::size_t n>
struct FormWords {
  std::array<std::string_view, n> words;
  std::array<T, n> values;

  T of(const Given& given) const { return values[given.word(words)]; }
  std::string text(const T& value) const {
    return std::string(words[static_cast<std::size_t>(std::ranges::find(values, value) - values.begin())]);
  }
};

constexpr FormWords<Activation, 8> activation_words{
    {"swiglu", "geglu", "quick_geglu", "gelu", "fast_gelu", "exact_gelu", "relu", "squared_relu"},
    {Activation::swiglu, Activation::gated_gelu, Activation::gated_fast_gelu, Activation::gelu,
     Activation::fast_gelu, Activation::exact_gelu, Activation::relu, Activation::squared_relu}};
constexpr FormWords<Positions, 4> position_words{
    {"learned", "rope", "alibi", "none"},
    {Positions::learned, Positions::rotary, Positions::alibi, Positions::none}};
constexpr FormWords<bool, 2> on_words{{"0", "1"}, {false, true}};
constexpr FormWords<bool, 2> norm_words{{"rms", "layer"}, {false, true}};
constexpr FormWords<HeadNorm, 2> head_norm_words{{"0", "1"}, {HeadNorm::none, HeadNorm::of_each_head}};
constexpr FormWords<NormPlaces, 2> residual_words{{"0", "1"}, {NormPlaces::before, NormPlaces::parallel}};

/// Which dense layers have one: none, those of queries, keys and values, or all but the head.
enum class Biases : std::uint8_t { none, qkv, all };
constexpr FormWords<Biases, 3> bias_words{{"0", "qkv", "1"}, {Biases::none, Biases::qkv, Biases::all}};

double share_dropped(const Given& given) {
  const double rate = given.number();
  if (rate < 0 || rate >= 1) throw given.wrong("should be at least 0 and less than 1");
  return rate;
}

std::string number_text(double number) { return fmt::format("{}", number); }
std::string number_text(std::int64_t number) { return fmt::format("{}", number); }

double factor_of(const Given& given) {
  const double factor = given.number();
  if (factor < 0) throw given.wrong("should be at least 0");
  return factor;
}

/// Keys of networks whose layers have experts.
template <auto part>
DecoderForm expert_form(std::string key) {
  return {std::move(key),
          [](DecoderOptions& o, const Given& given) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype((*o.experts).*part)>, double>)
              (*o.experts).*part = factor_of(given);
            else
              (*o.experts).*part = given.integer(1, 1 << 20);
          },
          [](const DecoderOptions& o) { return number_text((*o.experts).*part); }};
}

/// Keys of networks with latent attention.
template <auto part>
DecoderForm latent_form(std::string key) {
  return {
      std::move(key),
      [](DecoderOptions& o, const Given& given) { (*o.heads_as.latent).*part = given.integer(0, 1 << 20); },
      [](const DecoderOptions& o) { return number_text((*o.heads_as.latent).*part); }};
}

constexpr FormWords<bool, 2> routing_words{{"softmax", "sigmoid"}, {false, true}};

using Mixture = MixtureOfExperts::Options;
const std::array<DecoderForm, 12> expert_forms{
    {expert_form<&Mixture::experts>("experts"),
     expert_form<&Mixture::chosen>("top_k"),
     {"shared", [](DecoderOptions& o, const Given& given) { o.shared_experts = given.integer(0, 1 << 10); },
      [](const DecoderOptions& o) { return number_text(o.shared_experts); }},
     {"dense_layers",
      [](DecoderOptions& o, const Given& given) { o.first_expert_layer = given.integer(0, 1 << 20); },
      [](const DecoderOptions& o) { return number_text(o.first_expert_layer); }},
     {"routing",
      [](DecoderOptions& o, const Given& given) { o.experts->by_sigmoid = routing_words.of(given); },
      [](const DecoderOptions& o) { return routing_words.text(o.experts->by_sigmoid); }},
     {"scaled", [](DecoderOptions& o, const Given& given) { o.experts->scaled = on_words.of(given); },
      [](const DecoderOptions& o) { return on_words.text(o.experts->scaled); }},
     expert_form<&Mixture::groups>("groups"),
     expert_form<&Mixture::chosen_groups>("top_groups"),
     expert_form<&Mixture::factor>("routing_factor"),
     {"capacity", [](DecoderOptions& o, const Given& given) { o.experts->capacity = factor_of(given); },
      [](const DecoderOptions& o) {
        return o.experts->capacity > 0 ? number_text(o.experts->capacity) : "dropless";
      }},
     expert_form<&Mixture::balance_loss>("balance_loss"),
     expert_form<&Mixture::z_loss>("z_loss")}};

const std::array<DecoderForm, 5> latent_forms{
    {latent_form<&LatentOptions::query_rank>("q_rank"), latent_form<&LatentOptions::rank>("kv_rank"),
     latent_form<&LatentOptions::plain>("plain_dim"), latent_form<&LatentOptions::turned>("rope_dim"),
     latent_form<&LatentOptions::values>("v_dim")}};

const std::array<DecoderForm, 12> decoder_forms{
    {{"activation", [](DecoderOptions& o, const Given& given) { o.activation = activation_words.of(given); },
      [](const DecoderOptions& o) { return activation_words.text(o.activation); }},
     {"attention_dropout",
      [](DecoderOptions& o, const Given& given) { o.heads_as.dropout = share_dropped(given); },
      [](const DecoderOptions& o) { return fmt::format("{}", o.heads_as.dropout); }},
     {"bias",
      [](DecoderOptions& o, const Given& given) {
        const Biases said = bias_words.of(given);
        o.qkv_bias = said != Biases::none;
        o.bias = said == Biases::all;
      },
      [](const DecoderOptions& o) {
        return bias_words.text(o.bias ? Biases::all : o.qkv_bias ? Biases::qkv : Biases::none);
      }},
     {"causal", [](DecoderOptions& o, const Given& given) { o.heads_as.is_causal = on_words.of(given); },
      [](const DecoderOptions& o) { return on_words.text(o.heads_as.is_causal); }},
     {"dropout",
      [](DecoderOptions& o, const Given& given) { o.dropout = o.embedding_dropout = share_dropped(given); },
      [](const DecoderOptions& o) { return fmt::format("{}", o.dropout); }},
     {"head_dim",
      [](DecoderOptions& o, const Given& given) { o.heads_as.features = given.integer(1, 1 << 20); },
      [](const DecoderOptions& o) {
        return o.heads_as.features > 0 ? fmt::format("{}", o.heads_as.features) : "hidden/heads";
      }},
     {"kv_heads", [](DecoderOptions& o, const Given& given) { o.kv_heads = given.integer(); },
      [](const DecoderOptions& o) { return o.kv_heads > 0 ? fmt::format("{}", o.kv_heads) : "heads"; }},
     {"norm", [](DecoderOptions& o, const Given& given) { o.layer_norm = norm_words.of(given); },
      [](const DecoderOptions& o) { return norm_words.text(o.layer_norm); }},
     {"parallel_residual", [](DecoderOptions& o, const Given& given) { o.norms = residual_words.of(given); },
      [](const DecoderOptions& o) { return residual_words.text(o.norms); }},
     {"positions", [](DecoderOptions& o, const Given& given) { o.positions = position_words.of(given); },
      [](const DecoderOptions& o) { return position_words.text(o.positions); }},
     {"qk_norm",
      [](DecoderOptions& o, const Given& given) {
        o.heads_as.norm = head_norm_words.of(given);
        o.heads_as.epsilon = o.epsilon;
      },
      [](const DecoderOptions& o) { return head_norm_words.text(o.heads_as.norm); }},
     {"tied", [](DecoderOptions& o, const Given& given) { o.tied_head = on_words.of(given); },
      [](const DecoderOptions& o) { return on_words.text(o.tied_head); }}}};

/// A layer that asks with learned queries is of what predicts the next token, in places that are learned, too;
/// latent attention has its own features and norms, its positions by rotary ones.
bool is_form_of(const DecoderForm& form, const DecoderOptions& options) {
  if (options.query_layer && (form.key == "positions" || form.key == "causal")) return false;
  return !options.heads_as.latent || (form.key != "head_dim" && form.key != "kv_heads" &&
                                      form.key != "qk_norm" && form.key != "positions");
}

/// All that `options` have a key for.
std::vector<const DecoderForm*> forms_of(const DecoderOptions& options) {
  std::vector<const DecoderForm*> out;
  for (const DecoderForm& form : decoder_forms)
    if (is_form_of(form, options)) out.push_back(&form);
  if (options.experts)
    for (const DecoderForm& form : expert_forms) out.push_back(&form);
  if (options.heads_as.latent)
    for (const DecoderForm& form : latent_forms) out.push_back(&form);
  return out;
}

}  // namespace

std::map<std::string, std::string> keys_of_forms(const DecoderOptions& options) {
  std::map<std::string, std::string> out;
  for (const DecoderForm* form : forms_of(options)) out[form->key] = form->print(options);
  return out;
}

DecoderOptions with_forms(const ModelArguments& arguments, DecoderOptions options) {
  for (const DecoderForm* form : forms_of(options))
    if (const auto said = arguments.keys.find(form->key); said != arguments.keys.end())
      form->read(options, {form->key, said->second});
  return options;
}

}  // namespace shardwright
