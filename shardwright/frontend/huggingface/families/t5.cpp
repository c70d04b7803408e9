// T5: an encoder, and a decoder whose layers read what the encoder made; places are told by a bias of the scores that grows by ranges of
// distances, one table for all layers of a stack. Its scores are not scaled.

#include <algorithm>
#include <cmath>
#include <variant>

#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/huggingface/family.h"
#include "shardwright/frontend/huggingface/targets.h"
#include "shardwright/frontend/modules/embedding.h"
#include "shardwright/frontend/modules/feed_forward.h"
#include "shardwright/frontend/modules/masks.h"
#include "shardwright/frontend/modules/norms.h"
#include "shardwright/frontend/modules/self_attention.h"
#include "shardwright/ops/calls.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

struct T5Options {
  std::int64_t hidden = 512, heads = 8, features = 64, ffn = 2048, vocabulary = 32128;
  std::int64_t encoder_layers = 6, decoder_layers = 6;
  std::int64_t ranges = 32, most_distance = 128;  // of the bias
  double epsilon = 1e-6, dropout = 0.1;
  std::string network = "relu";
  bool scales_scores = true, has_head = false;
};

T5Options options_of(const FamilyCall& call) {
  const Config& c = call.config;
  T5Options o;
  o.hidden = c.integer_or("d_model", 512, 1, 1 << 20);
  o.heads = c.integer_or("num_heads", 8, 1, 1 << 20);
  o.features = c.integer_or("d_kv", 64, 1, 1 << 20);
  o.ffn = c.integer_or("d_ff", 2048, 1, 1 << 24);
  o.vocabulary = c.integer_or("vocab_size", 32128, 1, std::numeric_limits<std::int32_t>::max());
  o.encoder_layers = c.integer_or("num_layers", 6, 1, 4096);
  o.decoder_layers = c.integer_or("num_decoder_layers", o.encoder_layers, 1, 4096);
  o.ranges = c.integer_or("relative_attention_num_buckets", 32, 4, 1 << 16);
  o.most_distance = c.integer_or("relative_attention_max_distance", 128, 1, 1 << 24);
  if (o.most_distance <= o.ranges / 2)
    throw c.wrong("relative_attention_max_distance",
                  fmt::format("more than {}, half of the buckets", o.ranges / 2));
  o.epsilon = c.number_or("layer_norm_epsilon", 1e-6);
  o.network = c.text_or("feed_forward_proj", "relu");
  // The first generation had one table for all and scaled scores by it; configs of later ones say that they have two.
  const bool is_tied = c.flag_or("tie_word_embeddings", true);
  o.scales_scores = c.flag_or("scale_decoder_outputs", is_tied);
  o.has_head = call.has_tensor("lm_head.weight", !is_tied);
  o.dropout = call.dropout("dropout_rate", 0.1);
  c.only("is_decoder", false, "there would be no encoder");
  // What the last two say again, as transformers writes them.
  c.pass_over({"classifier_dropout", "dense_act_fn", "is_gated_act", "n_positions"});
  return o;
}

using Network = std::variant<PlainFeedForward, GatedFeedForward>;

Network network_of(const FamilyCall& call, const T5Options& o, const std::string& name) {
  const std::string act = name + ".gelu";
  if (o.network == "relu")
    return PlainFeedForward(name, o.hidden, o.ffn, relu(name + ".relu"), {.bias = false});
  if (o.network == "gelu_new")
    return PlainFeedForward(name, o.hidden, o.ffn, gelu(act, "tanh"), {.bias = false});
  if (o.network == "gelu") return PlainFeedForward(name, o.hidden, o.ffn, gelu(act), {.bias = false});
  if (o.network == "gated-gelu" || o.network == "gated-gelu_new")
    return GatedFeedForward(name, o.hidden, o.ffn, {.bias = false}, gelu(act, "tanh"));
  if (o.network == "gated-relu")
    return GatedFeedForward(name, o.hidden, o.ffn, {.bias = false}, relu(name + ".relu"));
  if (o.network == "gated-silu") return GatedFeedForward(name, o.hidden, o.ffn, {.bias = false});
  throw call.config.wrong("feed_forward_proj", "relu, gelu, gelu_new, gated-gelu, gated-relu or gated-silu");
}

/// Which row of the table a distance has, keys before the query being at distances below 0. As transformers computes it, in f32.
std::int64_t range_of(std::int64_t distance, std::int64_t ranges, std::int64_t most, bool sees_later) {
  std::int64_t out = 0;
  if (sees_later) {
    ranges /= 2;
    if (distance > 0) out = ranges;
    distance = std::abs(distance);
  } else {
    distance = std::max<std::int64_t>(-distance, 0);
  }
  const std::int64_t exact = ranges / 2;
  if (distance < exact) return out + distance;
  const float share = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(most) / static_cast<double>(exact)));
  const auto more = static_cast<std::int64_t>(share * static_cast<float>(ranges - exact));
  return out + std::min(exact + more, ranges - 1);
}

/// Of a stack's own attention. Shapes: [1, heads, length, length]
Traced bias_of(Trace& trace, const T5Options& o, const std::string& stack, std::int64_t length,
               bool sees_later) {
  const std::string name = stack + ".bias";
  const auto filled = [&](std::int64_t count, std::int64_t value, const std::string& called) {
    return trace.call(
        "fill", {},
        {{"shape", Shape{count}}, {"value", static_cast<double>(value)}, {"dtype", std::string("i32")}},
        called);
  };
  // Runs of distances that share a row, from the first key seen by the last query to the other end.
  std::vector<Traced> runs;
  for (std::int64_t d = 1 - length; d < length;) {
    const std::int64_t row = range_of(d, o.ranges, o.most_distance, sees_later), begin = d;
    while (d < length && range_of(d, o.ranges, o.most_distance, sees_later) == row) ++d;
    runs.push_back(filled(d - begin, row, fmt::format("{}.rows.{}", name, runs.size())));
  }
  const Traced rows = runs.size() == 1 ? runs[0] : trace.call("concat", runs, {}, name + ".rows");
  const Traced at =
      trace.call("cumsum", {filled(length, 1, name + ".ones")}, {{"exclusive", true}}, name + ".at");
  const Traced of_queries = Operator("reshape", name + ".queries").with("shape", Shape{length, 1})(at);
  const Traced first{&trace, constant(trace.builder(), DType::i32, static_cast<double>(length - 1))};
  const Traced apart = trace.call("add", {trace.call("sub", {at, of_queries}, {}, name + ".apart"), first},
                                  {}, name + ".distance");
  const Traced row = trace.call("gather", {rows, apart}, {}, name + ".row");
  const Embedding table(name, o.ranges, o.heads);
  const Traced by_head = transpose(name + ".by_head", {2, 0, 1})(table(row));
  return Operator("reshape", name + ".whole").with("shape", Shape{1, o.heads, length, length})(by_head);
}

SelfAttention::Options attention_of(const T5Options& o, bool is_causal, bool has_bias) {
  return {.heads = o.heads,
          .kv_heads = o.heads,
          .is_causal = is_causal,
          .is_explicit = has_bias,
          .features = o.features,
          .scale = 1,
          .dropout = o.dropout};
}

struct Stack {
  const FamilyCall& call;
  const T5Options& options;
  std::string name;

  /// `made` by the encoder, and what of it is seen, are of a decoder.
  /// Shapes: x [batch, length, hidden] -> the same
  Traced operator()(Traced x, std::optional<Traced> attention_mask, std::optional<Traced> made = {},
                    const Seen& seen_made = {}) const {
    Trace& trace = *x.trace;
    const T5Options& o = options;
    const Shape shape = x.type().shape;
    Traced bias = bias_of(trace, o, name, shape[1], !made);
    if (attention_mask)
      bias = add(name + ".hidden")(bias, padding_mask(trace, *attention_mask, name + ".mask", 1));
    const Seen own{.mask = bias};
    const auto dropped_as = [&](Traced y, const std::string& called) {
      return dropped(y, called + ".dropout", o.dropout);
    };
    const auto added = [&](const std::string& called, Traced y) {
      return add(called)(x, dropped_as(y, called));
    };
    x = dropped_as(x, name);
    const auto normed = [&](Traced y, const std::string& called) {
      return RmsNorm(called, o.hidden, o.epsilon)(y);
    };
    const std::int64_t layers = made ? o.decoder_layers : o.encoder_layers;
    for (std::int64_t l = 0; l < layers; ++l) {
      const std::string layer = fmt::format("{}.layers.{}", name, l);
      const Traced y = normed(x, layer + ".norm1");
      const SelfAttention attention(layer + ".attention", o.hidden, attention_of(o, made.has_value(), true));
      x = added(layer + ".add1", attention(y, y, nullptr, own));
      if (made) {
        const SelfAttention cross(layer + ".cross", o.hidden,
                                  attention_of(o, false, call.arguments.attention == Attention::in_memory));
        x = added(layer + ".add_cross", cross(normed(x, layer + ".norm_cross"), *made, nullptr, seen_made));
      }
      Network network = network_of(call, o, layer + ".ffn");
      std::visit([&](auto& f) { f.dropout = o.dropout; }, network);
      const Traced z = normed(x, layer + ".norm2");
      x = added(layer + ".add2", std::visit([&](const auto& f) { return f(z); }, network));
    }
    return dropped_as(normed(x, name + ".norm"), name + ".norm");
  }
};

Names names(const T5Options& o) {
  Names out{
      .rows = {{"embedding.weight", "shared.weight"}, {"head.weight", "lm_head.weight", Lay::transposed}},
      .ignored = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                  "decoder.block.#.layer.#.EncDecAttention.relative_attention_bias.weight"}};
  if (!o.has_head) out.ignored.push_back("lm_head.weight");
  const bool is_gated = o.network.starts_with("gated");
  for (const std::string stack : {"encoder", "decoder"}) {
    const bool reads = stack == "decoder";
    const std::string ours = stack + ".layers.#.", theirs = stack + ".block.#.layer.";
    const std::string last = reads ? "2" : "1";
    const auto attention = [&](const std::string& own, const std::string& called) {
      for (const std::string part : {"q", "k", "v", "o"})
        out.rows.push_back(
            {ours + own + "." + part + ".weight", theirs + called + "." + part + ".weight", Lay::transposed});
    };
    attention("attention", "0.SelfAttention");
    if (reads) attention("cross", "1.EncDecAttention");
    const auto network = [&](const std::string& own, const std::string& called) {
      out.rows.push_back({ours + "ffn." + own + ".weight",
                          theirs + last + ".DenseReluDense." + called + ".weight", Lay::transposed});
    };
    if (is_gated) network("gate", "wi_0");
    network("up", is_gated ? "wi_1" : "wi");
    network("down", "wo");
    out.rows.push_back({ours + "norm1.weight", theirs + "0.layer_norm.weight"});
    if (reads) out.rows.push_back({ours + "norm_cross.weight", theirs + "1.layer_norm.weight"});
    out.rows.push_back({ours + "norm2.weight", theirs + last + ".layer_norm.weight"});
    out.rows.push_back({stack + ".norm.weight", stack + ".final_layer_norm.weight"});
    out.rows.push_back(
        {stack + ".bias.weight", stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"});
  }
  return out;
}

BuiltFamily build(const FamilyCall& call) {
  const T5Options o = options_of(call);
  const std::int64_t padding = call.config.integer_or("pad_token_id", 0, 0, o.vocabulary - 1);
  Trace trace(call.arguments.precision);
  const std::int64_t length = call.arguments.integer("seq", 512);
  const Type tokens{DType::i32, {call.batch(), length}};
  const Traced input = trace.input("input", tokens);
  const Targets targets =
      targets_of(call, trace, {.length = length, .vocabulary = o.vocabulary, .padding = padding});
  call.config.check_all_read();
  const Type of_target = targets.label.type();
  const auto given = [&](const char* name, const Type& type) {
    return call.brings(name) ? std::optional(trace.input(name, type)) : std::nullopt;
  };
  const std::optional<Traced> mask = given("attention_mask", tokens);
  const std::optional<Traced> of_targets = given("decoder_attention_mask", of_target);
  const Embedding words("embedding", o.vocabulary, o.hidden);
  const Traced made = Stack{call, o, "encoder"}(words(input), mask);
  Seen seen;
  if (mask) seen.mask = padding_mask(trace, *mask, "mask.made", of_target.shape[1]);
  const Traced x = Stack{call, o, "decoder"}(words(targets.fed), of_targets, made, seen);
  const Traced scaled =
      o.scales_scores
          ? Operator("scale", "scores.scaled").with("factor", 1 / std::sqrt(static_cast<double>(o.hidden)))(x)
          : x;
  const Traced scores = o.has_head ? Dense("head", o.hidden, o.vocabulary, {.bias = false})(scaled)
                                   : matmul("head", {{"transpose_b", true}})(scaled, words.weight);
  Model model = language_model(call, trace, scores, false, targets.label);
  model.classes["decoder_input_ids"] = o.vocabulary;
  model.tokens = call.batch() * (length + of_target.shape[1]);
  return {std::move(model), names(o)};
}

}  // namespace

std::vector<Family> t5() {
  return {{"t5",
           {"T5ForConditionalGeneration"},
           {"attention_mask", "decoder_input_ids", "decoder_attention_mask"},
           build}};
}

}  // namespace shardwright::families
