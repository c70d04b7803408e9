#include "shardwright/frontend/modules/self_attention.h"

#include <cmath>

#include "shardwright/frontend/functions.h"

namespace shardwright {
namespace {

const std::vector<std::int64_t> heads_outside{0, 2, 1, 3};

/// Features of a head. Throws: Error if there can be no such heads.
std::int64_t features_of(std::int64_t width, const SelfAttention::Options& options) {
  const std::int64_t heads = options.heads, kv_heads = options.kv_heads;
  if (heads < 1 || (options.features == 0 && width % heads != 0))
    throw error("heads={}: should divide the width {}", heads, width);
  if (kv_heads < 1 || heads % kv_heads != 0)
    throw error("kv_heads={}: should divide heads={}", kv_heads, heads);
  const std::int64_t features = options.features > 0 ? options.features : width / heads;
  if (options.positions == Positions::rotary && features % 2 != 0)
    throw error("heads={}: leaves {} features of {} to a head, rotary positions need an even number", heads,
                features, width);
  return features;
}

bool lies_in_memory(const SelfAttention::Options& options) {
  return options.is_explicit || options.cap > 0 || options.dropout > 0;
}

Attributes attributes_of(const SelfAttention::Options& options) {
  Attributes out;
  if (options.is_causal) out.set("causal", true);
  if (options.positions == Positions::alibi) out.set("alibi", true);
  if (options.scale > 0) out.set("scale", options.scale);
  return out;
}

/// Of scores that lie in memory: a scale is said where they are weighed.
Attributes weights_of(SelfAttention::Options options) {
  options.scale = 0;
  return attributes_of(options);
}

SelfAttention::Options of_keys(SelfAttention::Options options) {
  options.qkv_bias = options.key_bias.value_or(options.qkv_bias);
  return options;
}

Operator rotary_of(const std::string& name, const SelfAttention::Options& options) {
  Operator out = rotary(name);
  if (!options.rates.empty()) return out.with("rates", options.rates);
  return options.base == 10000 ? out : out.with("base", options.base);
}

}  // namespace

SelfAttention::Heads::Heads(const std::string& name, std::int64_t width, std::int64_t heads,
                            std::int64_t of_each, const Options& options)
    : dense(name, width, heads * of_each, {.bias = options.qkv_bias, .start = options.start}),
      split("reshape", name + ".split"),
      transpose(shardwright::transpose(name + ".transpose", heads_outside)),
      turned(options.turned == of_each ? 0 : options.turned),
      turned_scale(options.turned_scale),
      count(heads),
      features(of_each) {}

Traced SelfAttention::Heads::turned_by(Traced heads, const std::optional<Traced>& positions) const {
  const auto turn = [&](Traced x) {
    const Traced y = positions ? (*rotary)(x, *positions) : (*rotary)(x);
    if (turned_scale == 1) return y;
    return Operator("scale", rotary->name() + ".scaled").with("factor", turned_scale)(y);
  };
  if (turned == 0) return turn(heads);
  const std::vector<Traced> parts = Operator("split", rotary->name() + ".parts")
                                        .with("dim", std::int64_t{-1})
                                        .with("sizes", Shape{turned, features - turned})
                                        .all(heads);
  return Operator("concat", rotary->name() + ".whole")
      .with("dim", std::int64_t{-1})(turn(parts[0]), parts[1]);
}

Traced SelfAttention::Heads::operator()(Traced x, const Cached* cached, const Seen& seen) const {
  const Shape shape = x.type().shape;
  Traced y = dense(x);
  if (norm_is == HeadNorm::of_all_heads) y = (*norm)(y);
  y = split.with("shape", Shape{shape[0], shape[1], count, features})(y);
  if (norm_is == HeadNorm::of_each_head) y = (*norm)(y);
  const Traced heads = transpose(y);
  if (!rotary) return heads;
  return turned_by(heads, cached ? std::optional(cached->places) : seen.positions);
}

SelfAttention::SelfAttention(const std::string& called, std::int64_t width, const Options& options)
    : name(called),
      has_alibi(options.positions == Positions::alibi),
      scale(options.scale),
      cap(options.cap),
      dropout(options.dropout),
      q(name + ".q", width, options.heads, features_of(width, options), options),
      k(name + ".k", width, options.kv_heads, q.features, of_keys(options)),
      v(name + ".v", width, options.kv_heads, q.features, options),
      is_explicit(lies_in_memory(options)),
      scores(matmul(name + ".scores", {{"transpose_b", true}})),
      weights("attention_weights", name + ".weights", weights_of(options)),
      attend(is_explicit ? matmul(name + ".attend") : attention(name + ".attend", attributes_of(options))),
      transpose(shardwright::transpose(name + ".transpose", heads_outside)),
      join("reshape", name + ".join"),
      out_features(options.latent ? options.latent->values : q.features),
      o(name + ".o", options.heads * out_features, width,
        {.bias = options.out_bias, .start = options.start}) {
  if (options.latent)
    latent.emplace(name, width, options.heads, *options.latent, rotary_of(name + ".rotary", options),
                   options.turned_scale);
  for (Heads* heads : {&q, &k}) {
    const std::string own = heads == &q ? name + ".q" : name + ".k";
    heads->norm_is = options.norm;
    if (options.norm != HeadNorm::none)
      heads->norm.emplace(own + ".norm",
                          heads->features * (options.norm == HeadNorm::of_all_heads ? heads->count : 1),
                          options.epsilon, options.norm_from_one);
    if (options.positions == Positions::rotary) heads->rotary = rotary_of(own + ".rotary", options);
  }
}

Traced SelfAttention::attended(Traced queries, Traced keys, Traced values, const Seen& seen) const {
  if (is_explicit) return attended_in_memory(queries, keys, values, seen);
  if (!seen.mask) return attend(queries, keys, values);
  return (seen.mask_hides_later ? attend.with("causal", false) : attend)(queries, keys, values, *seen.mask);
}

Traced SelfAttention::attended_in_memory(Traced queries, Traced keys, Traced values, const Seen& seen) const {
  const std::optional<Traced>& mask = seen.mask;
  const Operator softened = seen.mask_hides_later ? weights.with("causal", false) : weights;
  const double factor = scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(q.features));
  const auto weighed = [&](Traced x) {
    double of_weights = factor;
    if (cap > 0) {
      x = Operator("scale", scores.name() + ".by_cap").with("factor", factor / cap)(x);
      x = Operator("scale", scores.name() + ".capped").with("factor", cap)(tanh(scores.name() + ".tanh")(x));
      of_weights = 1;
    } else if (mask) {
      x = Operator("scale", scores.name() + ".scaled").with("factor", factor)(x);
      of_weights = 1;
    }
    if (mask) x = add(scores.name() + ".masked")(x, *mask);
    x = (of_weights == 1 ? softened : softened.with("scale", of_weights))(x);
    return dropped(x, weights.name() + ".dropout", dropout);
  };
  const Shape heads = queries.type().shape,
              of_keys = keys.type().shape;  // [batch, heads, sequence, features]
  const std::int64_t sharing = q.count / k.count;
  if (sharing == 1) return attend(weighed(scores(queries, keys)), values);
  // Queries that share keys stand side by side: [batch, kv heads, sharing, sequence, ...]
  const auto shaped = [&](Traced x, const Operator& of, const char* what, Shape shape) {
    return Operator("reshape", fmt::format("{}.{}", of.name(), what)).with("shape", std::move(shape))(x);
  };
  const Shape alone{of_keys[0], of_keys[1], 1, of_keys[2], of_keys[3]};
  const Traced x = scores(shaped(queries, scores, "q", {heads[0], k.count, sharing, heads[2], heads[3]}),
                          shaped(keys, scores, "k", alone));
  const Traced p = weighed(shaped(x, weights, "x", {heads[0], heads[1], heads[2], of_keys[2]}));
  const Traced y = attend(shaped(p, attend, "p", {heads[0], k.count, sharing, heads[2], of_keys[2]}),
                          shaped(values, attend, "v", alone));
  return shaped(y, attend, "y", heads);
}

Traced SelfAttention::attended_cached(Traced queries, Traced keys, Traced values,
                                      const Cached& cached) const {
  Trace& trace = *queries.trace;
  const auto with_rows = [&](const char* what, Traced rows) {
    Shape shape = rows.type().shape;
    shape[2] = cached.room;
    const Attributes attributes{{"init", "zeros"}, {"cache", true}};
    const Traced cache{&trace, trace.builder().leaf(OpKind::state, fmt::format("{}.{}", name, what),
                                                    {rows.type().dtype, std::move(shape)}, attributes)};
    const Traced next =
        trace.call("cache_rows", {cache, rows, cached.places}, {}, fmt::format("{}.{}.rows", name, what));
    trace.update(cache, next);
    return next;
  };
  const Traced of_keys = with_rows("keys", keys), of_values = with_rows("values", values);
  if (cap > 0)
    throw error("{}: a cap on scores cannot be kept token by token; generate is not possible", name);
  if (cached.is_first) return attended(queries, keys, values);
  Attributes attributes;
  if (has_alibi) attributes.set("alibi", true);
  if (scale > 0) attributes.set("scale", scale);
  return trace.call("cached_attention", {queries, of_keys, of_values, cached.places}, attributes,
                    attend.name());
}

Traced SelfAttention::operator()(Traced queries, Traced x, const Cached* cached, const Seen& seen) const {
  const auto [of_queries, keys, values] =
      latent ? (*latent)(x, cached ? std::optional(cached->places) : seen.positions)
             : std::array{q(queries, cached, seen), k(x, cached, seen), v(x, cached, seen)};
  const Traced y = transpose(cached ? attended_cached(of_queries, keys, values, *cached)
                                    : attended(of_queries, keys, values, seen));
  const Shape shape = queries.type().shape;
  return o(join.with("shape", Shape{shape[0], shape[1], q.count * out_features})(y));
}

}  // namespace shardwright
