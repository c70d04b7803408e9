#include "shardwright/frontend/modules/decoder.h"

#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/modules/masks.h"
#include "shardwright/ops/calls.h"

namespace shardwright {
namespace {

const Initializer start = normal(0.02);

DecoderLayer::Norm norm_of(const std::string& name, const DecoderOptions& options) {
  if (options.layer_norm) return LayerNorm(name, options.hidden, options.epsilon);
  return RmsNorm(name, options.hidden, options.epsilon, options.norm_from_one);
}

/// Of experts.
MixtureOfExperts::Options with_activation(MixtureOfExperts::Options o, Activation activation) {
  switch (activation) {
    case Activation::swiglu: return o;
    case Activation::gated_gelu: o.activation = "gelu"; return o;
    case Activation::gelu: o.activation = "gelu"; break;
    case Activation::relu: o.activation = "relu"; break;
    case Activation::squared_relu: o.activation = "squared_relu"; break;
    default: throw error("activation: of experts it is swiglu, geglu, gelu, relu or squared_relu");
  }
  o.is_gated = false;
  return o;
}

DecoderLayer::Network network_of(const std::string& name, const DecoderOptions& options) {
  const Dense::Options dense{.bias = options.bias, .start = start};
  const auto plain = [&](Operator activation) {
    return PlainFeedForward(name, options.hidden, options.ffn, std::move(activation), dense);
  };
  if (options.experts)
    return MixtureOfExperts(name, options.hidden,
                            options.experts->inner > 0 ? options.experts->inner : options.ffn,
                            with_activation(*options.experts, options.activation));
  switch (options.activation) {
    case Activation::swiglu: break;
    case Activation::gelu: return plain(gelu(name + ".gelu", "tanh"));
    case Activation::fast_gelu: return plain(gelu(name + ".gelu", "sigmoid"));
    case Activation::exact_gelu: return plain(gelu(name + ".gelu"));
    case Activation::relu: return plain(relu(name + ".relu"));
    case Activation::squared_relu: {
      PlainFeedForward out = plain(relu(name + ".relu"));
      out.squared = Operator("square", name + ".squared");
      return out;
    }
    case Activation::gated_gelu:
      return GatedFeedForward(name, options.hidden, options.ffn, dense, gelu(name + ".gelu", "tanh"));
    case Activation::gated_fast_gelu:
      return GatedFeedForward(name, options.hidden, options.ffn, dense, gelu(name + ".gelu", "sigmoid"));
  }
  return GatedFeedForward(name, options.hidden, options.ffn, dense);
}

SelfAttention::Options attention_of(const DecoderOptions& options) {
  SelfAttention::Options out = options.heads_as;
  out.heads = options.heads;
  out.kv_heads = options.kv_heads;
  out.positions = options.positions;
  out.is_explicit = options.explicit_attention;
  out.qkv_bias = options.qkv_bias;
  out.out_bias = options.out_bias.value_or(options.bias);
  out.start = start;
  return out;
}

template <class... Modules>
Traced apply(const std::variant<Modules...>& module, Traced x) {
  return std::visit([x](const auto& m) { return m(x); }, module);
}

}  // namespace

DecoderLayer::DecoderLayer(const std::string& name, const DecoderOptions& options)
    : norms(options.norms),
      norm1(norm_of(name + ".norm1", options)),
      attention(name + ".attention", options.hidden, attention_of(options)),
      add1(add(name + ".add1")),
      norm2(norm_of(name + ".norm2", options)),
      ffn(network_of(name + ".ffn", options)),
      add2(add(name + ".add2")),
      dropout(options.dropout) {
  if (norms != NormPlaces::both) return;
  norm1_behind = norm_of(name + ".norm1b", options);
  norm2_behind = norm_of(name + ".norm2b", options);
}

Traced DecoderLayer::operator()(Traced x, const Cached* cached, const Seen& seen) const {
  const Traced y = norms == NormPlaces::behind ? x : apply(norm1, x);
  const Traced attended = attention(y, y, cached, seen);
  if (norms != NormPlaces::parallel) return after_attention(x, attended);
  return add2(add1(x, dropped_for(add1, attended)), dropped_for(add2, apply(ffn, apply(norm2, x))));
}

Traced DecoderLayer::operator()(Traced queries, Traced x, const Cached* cached) const {
  return after_attention(x, attention(queries, apply(norm1, x), cached));
}

Traced DecoderLayer::dropped_for(const Operator& sum, Traced x) const {
  return dropped(x, sum.name() + ".dropout", dropout);
}

Traced DecoderLayer::after_attention(Traced x, Traced attended) const {
  attended = dropped_for(add1, attended);
  if (norms == NormPlaces::behind) {
    const Traced y = add1(x, apply(norm1, attended));
    return add2(y, apply(norm2, dropped_for(add2, apply(ffn, y))));
  }
  const Traced y = add1(x, norm1_behind ? apply(*norm1_behind, attended) : attended);
  const Traced out = dropped_for(add2, apply(ffn, apply(norm2, y)));
  return add2(y, norm2_behind ? apply(*norm2_behind, out) : out);
}

namespace {

/// Of x [batch, sequence, width] the elements `last`, one of each sequence: [batch, 1, width].
Traced asked_for(Traced x, Traced last) {
  const Shape shape = x.type().shape;
  const Traced all = Operator("reshape", "last.all").with("shape", Shape{shape[0] * shape[1], shape[2]})(x);
  const Traced own = x.trace->call("gather", {all, last}, {}, "last");
  return Operator("reshape", "last.rows").with("shape", Shape{shape[0], 1, shape[2]})(own);
}

}  // namespace

Decoder::Decoder(const DecoderOptions& o)
    : options(o),
      embedding("embedding", o.vocabulary, o.hidden),
      positions{
          "positions.weight", {(o.places > 0 ? o.places : o.sequence) + o.first_place, o.hidden}, start},
      add_positions(add("positions")),
      queries{"queries.weight", {o.sequence, o.hidden}, start},
      repeat_queries("broadcast", "queries"),
      norm(norm_of("norm", o)),
      tied_head(matmul("head.matmul", {{"transpose_b", true}})) {
  DecoderOptions in_windows = o;
  if (o.heads_in_windows) in_windows.heads_as = *o.heads_in_windows;
  for (std::int64_t l = 0; l < o.layers; ++l) {
    const bool has_window = l < std::ssize(o.windows) && o.windows[static_cast<std::size_t>(l)] > 0;
    DecoderOptions own = has_window ? in_windows : o;
    if (l < o.first_expert_layer) own.experts.reset();
    layers.emplace_back(fmt::format("layers.{}", l), own);
  }
  if (!o.tied_head)
    head.emplace("head", o.hidden, o.vocabulary,
                 Dense::Options{.bias = o.head_bias.value_or(false), .start = start});
}

Traced Decoder::embedded(Traced tokens, const Cached* cached, const DecoderData& data) const {
  Trace& trace = *tokens.trace;
  const std::string own = embedding.gather.name();
  Traced x = embedding(tokens);
  if (options.padding) x = without_learning(x, tokens, *options.padding, own);
  if (options.embedding_scale != 1)
    x = Operator("scale", own + ".scale").with("factor", options.embedding_scale)(x);
  if (options.positions != Positions::learned) return x;
  // Of what is learned for each place, the rows of those that x is at.
  const Traced table = trace.parameter(positions);
  const std::int64_t first = options.first_place, rows = tokens.type().shape[1];
  std::optional<Traced> places = cached ? std::optional(cached->places) : data.positions;
  if (places && first > 0)
    places = Operator("shift", "positions.places").with("value", static_cast<double>(first))(*places);
  if (places) return add_positions(x, trace.call("gather", {table, *places}, {}, "positions.weight.row"));
  if (options.places == 0) return add_positions(x, table);
  const Traced used = trace.call(
      "strided_slice", {table},
      {{"dims", Shape{0}}, {"starts", Shape{first}}, {"stops", Shape{first + rows}}}, "positions.used");
  return add_positions(x, used);
}

Traced Decoder::operator()(Traced tokens, const Cached* cached, const DecoderData& data) const {
  Trace& trace = *tokens.trace;
  Traced x = dropped(embedded(tokens, cached, data), "embedding.dropout", options.embedding_dropout);
  Masks masks(trace, tokens.type().shape, data, options.heads_as.is_causal);
  const std::size_t plain = layers.size() - (options.query_layer ? 1 : 0);
  for (std::size_t l = 0; l < plain; ++l) {
    const std::int64_t window = l < options.windows.size() ? options.windows[l] : 0;
    if (cached && window > 0 && window < cached->room)
      throw error("a window of {} keys: {} tokens are not possible token by token, at most {}", window,
                  cached->room, window);
    x = layers[l](x, cached,
                  {.positions = data.positions,
                   .mask = cached ? std::nullopt : masks.of(window),
                   .mask_hides_later = masks.hide_later()});
  }
  if (options.query_layer) {
    const Traced all = trace.parameter(queries);
    const Traced own = cached ? trace.call("gather", {all, cached->places}, {}, queries.name + ".row") : all;
    x = layers.back()(repeat_queries.with("shape", x.type().shape)(own), x, cached);
  }
  if (cached && cached->is_first) x = asked_for(x, cached->last);
  x = apply(norm, x);
  const Traced scores = head ? (*head)(x) : tied_head(x, embedding.weight);
  if (options.score_cap <= 0) return scores;
  const Traced small = Operator("scale", "head.by_cap").with("factor", 1 / options.score_cap)(scores);
  return Operator("scale", "head.capped").with("factor", options.score_cap)(tanh("head.tanh")(small));
}

}  // namespace shardwright
