// Whisper: two convolutions along time make elements of sound, whose places are told by a frozen table; an encoder reads them, and a
// decoder, whose table of words also scores, reads what it made.

#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/huggingface/family.h"
#include "shardwright/frontend/huggingface/targets.h"
#include "shardwright/frontend/modules/embedding.h"
#include "shardwright/frontend/modules/feed_forward.h"
#include "shardwright/frontend/modules/norms.h"
#include "shardwright/frontend/modules/self_attention.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

struct WhisperStack {
  std::string name;
  std::int64_t layers = 4, heads = 6, ffn = 1536, places = 1500;
};

struct WhisperOptions {
  std::int64_t hidden = 384, vocabulary = 51865, bins = 80, padding = 0;
  double dropout = 0, attention_dropout = 0, activation_dropout = 0;
  WhisperStack encoder{"encoder"}, decoder{.name = "decoder", .places = 448};
};

WhisperOptions options_of(const FamilyCall& call) {
  const Config& c = call.config;
  WhisperOptions o;
  o.hidden = c.integer_or("d_model", 384, 1, 1 << 20);
  o.vocabulary = c.integer_or("vocab_size", 51865, 1, std::numeric_limits<std::int32_t>::max());
  o.bins = c.integer_or("num_mel_bins", 80, 1, 1 << 16);
  o.padding = c.integer_or("pad_token_id", 50256, 0, o.vocabulary - 1);
  for (WhisperStack* stack : {&o.encoder, &o.decoder}) {
    stack->layers = c.integer_or(stack->name + "_layers", 4, 1, 4096);
    stack->heads = c.integer_or(stack->name + "_attention_heads", 6, 1, 1 << 20);
    stack->ffn = c.integer_or(stack->name + "_ffn_dim", 1536, 1, 1 << 24);
    if (o.hidden % stack->heads != 0)
      throw c.wrong(stack->name + "_attention_heads", fmt::format("a divisor of the width {}", o.hidden));
  }
  o.encoder.places = c.integer_or("max_source_positions", 1500, 1, 1 << 24);
  o.decoder.places = c.integer_or("max_target_positions", 448, 1, 1 << 24);
  activation_of(c, "activation_function", "gelu", false);  // there is one
  o.dropout = call.dropout("dropout", 0);
  o.attention_dropout = call.dropout("attention_dropout", 0);
  o.activation_dropout = call.dropout("activation_dropout", 0);
  call.check_layers_stay("encoder_layerdrop");
  call.check_layers_stay("decoder_layerdrop");
  c.only("apply_spec_augment", false, "parts of the sound would be left out by chance");
  c.only("tie_word_embeddings", true, "the scores would have a table of their own");
  c.pass_over({"scale_embedding", "suppress_tokens", "begin_suppress_tokens", "use_weighted_layer_sum",
               "classifier_proj_size", "mask_time_prob", "mask_time_length", "mask_time_min_masks",
               "mask_feature_prob", "mask_feature_length", "mask_feature_min_masks", "median_filter_width",
               "num_hidden_layers", "init_std", "forced_decoder_ids"});
  return o;
}

struct Whisper {
  const FamilyCall& call;
  const WhisperOptions& options;

  Operator activation(const std::string& name) const {
    switch (activation_of(call.config, "activation_function", "gelu", false)) {
      case Activation::gelu: return gelu(name, "tanh");
      case Activation::fast_gelu: return gelu(name, "sigmoid");
      case Activation::relu: return relu(name);
      default: return gelu(name);
    }
  }

  /// A convolution of three elements along time. Shapes: [batch, in, times] -> [batch, hidden, times / stride]
  Traced convolved(Traced x, const std::string& name, std::int64_t stride) const {
    Trace& trace = *x.trace;
    const std::int64_t in = x.type().shape[1], out = options.hidden;
    const auto shaped = [&](Traced y, const char* what, Shape shape) {
      return Operator("reshape", fmt::format("{}.{}", name, what)).with("shape", std::move(shape))(y);
    };
    const Shape shape = x.type().shape;
    const Parameter weight{name + ".weight", {out, in, 3}, normal(0.02)},
        bias{name + ".bias", {out}, zeros()};
    const Traced y = Operator("conv2d", name, {{"strides", Shape{1, stride}}, {"pads", Shape{0, 1, 0, 1}}})(
        shaped(x, "rows", {shape[0], in, 1, shape[2]}),
        shaped(trace.parameter(weight), "kernel", {out, in, 1, 3}));
    const Traced flat = shaped(y, "flat", {shape[0], out, y.type().shape[3]});
    return gelu(name + ".gelu")(add(name + ".add")(flat, shaped(trace.parameter(bias), "shift", {out, 1})));
  }

  SelfAttention attention(const std::string& name, const WhisperStack& stack, bool is_causal) const {
    return {name,
            options.hidden,
            {.heads = stack.heads,
             .kv_heads = stack.heads,
             .is_causal = is_causal,
             .is_explicit = call.arguments.attention == Attention::in_memory,
             .qkv_bias = true,
             .key_bias = false,
             .out_bias = true,
             .dropout = options.attention_dropout}};
  }

  /// `made` by the encoder is read by a decoder. Shapes: x [batch, length, hidden] -> the same
  Traced layers(const WhisperStack& stack, Traced x, std::optional<Traced> made = {}) const {
    const auto normed = [&](Traced y, const std::string& name) { return LayerNorm(name, options.hidden)(y); };
    const auto added = [&](const std::string& name, Traced y) {
      return add(name)(x, dropped(y, name + ".dropout", options.dropout));
    };
    for (std::int64_t l = 0; l < stack.layers; ++l) {
      const std::string name = fmt::format("{}.layers.{}", stack.name, l);
      const Traced y = normed(x, name + ".norm1");
      x = added(name + ".add1", attention(name + ".attention", stack, made.has_value())(y));
      if (made)
        x = added(name + ".add_cross",
                  attention(name + ".cross", stack, false)(normed(x, name + ".norm_cross"), *made));
      PlainFeedForward network(name + ".ffn", options.hidden, stack.ffn, activation(name + ".ffn.gelu"));
      network.dropout = options.activation_dropout;
      x = added(name + ".add2", network(normed(x, name + ".norm2")));
    }
    return normed(x, stack.name + ".norm");
  }

  Traced placed(Traced x, const WhisperStack& stack, bool is_frozen) const {
    Trace& trace = *x.trace;
    Parameter table{stack.name + ".positions.weight", {stack.places, options.hidden}, normal(0.02)};
    table.is_frozen = is_frozen;
    const std::int64_t length = x.type().shape[1];
    Traced rows = trace.parameter(table);
    if (length < stack.places)
      rows = trace.call("strided_slice", {rows},
                        {{"dims", Shape{0}}, {"starts", Shape{0}}, {"stops", Shape{length}}},
                        stack.name + ".positions.used");
    return dropped(add(stack.name + ".placed")(x, rows), stack.name + ".placed.dropout", options.dropout);
  }

  /// Shapes: sound [batch, bins, times], fed [batch, length] -> scores [batch, length, vocabulary]
  Traced operator()(Traced sound, Traced fed) const {
    const Traced convolutions = convolved(convolved(sound, "encoder.conv1", 1), "encoder.conv2", 2);
    const Traced elements = transpose("encoder.elements", {0, 2, 1})(convolutions);
    const Traced made = layers(options.encoder, placed(elements, options.encoder, true));
    const Embedding words("embedding", options.vocabulary, options.hidden);
    const Traced rows = without_learning(words(fed), fed, options.padding, "embedding");
    const Traced x = layers(options.decoder, placed(rows, options.decoder, false), made);
    return matmul("head", {{"transpose_b", true}})(x, words.weight);
  }
};

Names names() {
  Names out{.rows = {{"embedding.weight", "decoder.embed_tokens.weight"}},
            .prefix = "model.",
            .outside = {"proj_out.weight"},
            .ignored = {"proj_out.weight"}};
  for (const char* conv : {"conv1", "conv2"})
    out.add(fmt::format("encoder.{}", conv), fmt::format("encoder.{}", conv));
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string layer = stack + ".layers.#.";
    const auto attention = [&](const std::string& ours, const std::string& theirs) {
      for (const std::string part : {"q", "k", "v"})
        out.add(layer + ours + "." + part, layer + theirs + "." + part + "_proj", Lay::transposed);
      out.add(layer + ours + ".o", layer + theirs + ".out_proj", Lay::transposed);
    };
    attention("attention", "self_attn");
    out.add(layer + "norm1", layer + "self_attn_layer_norm");
    if (stack == "decoder") {
      attention("cross", "encoder_attn");
      out.add(layer + "norm_cross", layer + "encoder_attn_layer_norm");
    }
    out.add(layer + "ffn.up", layer + "fc1", Lay::transposed);
    out.add(layer + "ffn.down", layer + "fc2", Lay::transposed);
    out.add(layer + "norm2", layer + "final_layer_norm");
    out.add(stack + ".norm", stack + ".layer_norm");
    out.rows.push_back({stack + ".positions.weight", stack + ".embed_positions.weight"});
  }
  return out;
}

BuiltFamily build(const FamilyCall& call) {
  const WhisperOptions o = options_of(call);
  Trace trace(call.arguments.precision);
  const std::int64_t times = 2 * o.encoder.places;
  const Traced input = trace.input("input", {trace.precision(), {call.batch(), o.bins, times}});
  const Targets targets = targets_of(call, trace,
                                     {.length = o.decoder.places,
                                      .most = o.decoder.places,
                                      .vocabulary = o.vocabulary,
                                      .padding = o.padding,
                                      .first = 50257});
  call.config.check_all_read();
  const std::int64_t length = targets.label.type().shape[1];
  Model model = language_model(call, trace, Whisper{call, o}(input, targets.fed), false, targets.label);
  model.classes["decoder_input_ids"] = o.vocabulary;
  model.data_names["input"] = {"input_features"};
  model.tokens = call.batch() * (o.encoder.places + length);
  return {std::move(model), names()};
}

}  // namespace

std::vector<Family> whisper() {
  return {{"whisper", {"WhisperForConditionalGeneration"}, {"decoder_input_ids"}, build}};
}

}  // namespace shardwright::families
