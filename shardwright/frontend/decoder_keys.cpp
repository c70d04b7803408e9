#include "shardwright/frontend/decoder_keys.h"

#include <algorithm>
#include <array>

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

/// A layer that asks with learned queries is of what predicts the next token, in places that are learned, too.
bool is_form_of(const DecoderForm& form, const DecoderOptions& options) {
  return (form.key != "positions" && form.key != "causal") || !options.query_layer;
}

}  // namespace

std::map<std::string, std::string> keys_of_forms(const DecoderOptions& options) {
  std::map<std::string, std::string> out;
  for (const DecoderForm& form : decoder_forms)
    if (is_form_of(form, options)) out[form.key] = form.print(options);
  return out;
}

DecoderOptions with_forms(const ModelArguments& arguments, DecoderOptions options) {
  for (const DecoderForm& form : decoder_forms)
    if (const auto said = arguments.keys.find(form.key);
        said != arguments.keys.end() && is_form_of(form, options))
      form.read(options, {form.key, said->second});
  return options;
}

}  // namespace shardwright
