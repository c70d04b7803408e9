#include "shardwright/frontend/modules/decoder.h"

#include <cmath>

namespace shardwright {
namespace {

const Initializer start = normal(0.02);

DecoderLayer::Norm norm_of(const std::string& name, const DecoderOptions& options) {
  if (options.layer_norm) return LayerNorm(name, options.hidden, options.epsilon);
  return RmsNorm(name, options.hidden, options.epsilon);
}

DecoderLayer::Network network_of(const std::string& name, const DecoderOptions& options) {
  const Dense::Options dense{.bias = options.bias, .start = start};
  switch (options.activation) {
    case Activation::swiglu: break;
    case Activation::gelu:
      return PlainFeedForward(name, options.hidden, options.ffn, gelu(name + ".gelu", "tanh"), dense);
    case Activation::fast_gelu:
      return PlainFeedForward(name, options.hidden, options.ffn, gelu(name + ".gelu", "sigmoid"), dense);
  }
  return GatedFeedForward(name, options.hidden, options.ffn, dense);
}

SelfAttention::Options attention_of(const DecoderOptions& options) {
  return {.heads = options.heads,
          .kv_heads = options.kv_heads,
          .positions = options.positions,
          .is_explicit = options.explicit_attention,
          .qkv_bias = options.qkv_bias,
          .out_bias = options.bias,
          .start = start};
}

template <class... Modules>
Traced apply(const std::variant<Modules...>& module, Traced x) {
  return std::visit([x](const auto& m) { return m(x); }, module);
}

}  // namespace

DecoderLayer::DecoderLayer(const std::string& name, const DecoderOptions& options)
    : norm1(norm_of(name + ".norm1", options)),
      attention(name + ".attention", options.hidden, attention_of(options)),
      add1(add(name + ".add1")),
      norm2(norm_of(name + ".norm2", options)),
      ffn(network_of(name + ".ffn", options)),
      add2(add(name + ".add2")) {}

Traced DecoderLayer::operator()(Traced x, const Cached* cached) const {
  const Traced y = apply(norm1, x);
  return after_attention(x, attention(y, y, cached));
}

Traced DecoderLayer::operator()(Traced queries, Traced x, const Cached* cached) const {
  return after_attention(x, attention(queries, apply(norm1, x), cached));
}

Traced DecoderLayer::after_attention(Traced x, Traced attended) const {
  const Traced y = add1(x, attended);
  return add2(y, apply(ffn, apply(norm2, y)));
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
      positions{"positions.weight", {o.sequence, o.hidden}, start},
      add_positions(add("positions")),
      queries{"queries.weight", {o.sequence, o.hidden}, start},
      repeat_queries("broadcast", "queries"),
      norm(norm_of("norm", o)),
      tied_head(matmul("head.matmul", {{"transpose_b", true}})) {
  for (std::int64_t l = 0; l < o.layers; ++l) layers.emplace_back(fmt::format("layers.{}", l), o);
  if (!o.tied_head)
    head.emplace("head", o.hidden, o.vocabulary, Dense::Options{.bias = false, .start = start});
}

Traced Decoder::operator()(Traced tokens, const Cached* cached) const {
  Trace& trace = *tokens.trace;
  // Of what is learned for each place, the rows of those that x is at.
  const auto at_places = [&](const Parameter& table) {
    const Traced all = trace.parameter(table);
    return cached ? trace.call("gather", {all, cached->places}, {}, table.name + ".row") : all;
  };
  Traced x = embedding(tokens);
  if (options.positions == Positions::learned) x = add_positions(x, at_places(positions));
  const std::size_t plain = layers.size() - (options.query_layer ? 1 : 0);
  for (std::size_t l = 0; l < plain; ++l) x = layers[l](x, cached);
  if (options.query_layer)
    x = layers.back()(repeat_queries.with("shape", x.type().shape)(at_places(queries)), x, cached);
  if (cached && cached->is_first) x = asked_for(x, cached->last);
  x = apply(norm, x);
  return head ? (*head)(x) : tied_head(x, embedding.weight);
}

}  // namespace shardwright
