#include "shardwright/frontend/modules/self_attention.h"

#include <cmath>

namespace shardwright {
namespace {

const std::vector<std::int64_t> heads_outside{0, 2, 1, 3};

/// Features of a head. Throws: Error if there can be no such heads.
std::int64_t features_of(std::int64_t width, const SelfAttention::Options& options) {
  const std::int64_t heads = options.heads, kv_heads = options.kv_heads;
  if (heads < 1 || width % heads != 0) throw error("heads={}: should divide the width {}", heads, width);
  if (kv_heads < 1 || heads % kv_heads != 0)
    throw error("kv_heads={}: should divide heads={}", kv_heads, heads);
  const std::int64_t features = width / heads;
  if (options.positions == Positions::rotary && features % 2 != 0)
    throw error("heads={}: leaves {} features of {} to a head, rotary positions need an even number", heads,
                features, width);
  return features;
}

Attributes attributes_of(const SelfAttention::Options& options) {
  Attributes out;
  if (options.is_causal) out.set("causal", true);
  if (options.positions == Positions::alibi) out.set("alibi", true);
  return out;
}

}  // namespace

SelfAttention::Heads::Heads(const std::string& name, std::int64_t width, std::int64_t heads,
                            std::int64_t of_each, const Options& options)
    : dense(name, width, heads * of_each, {.bias = options.qkv_bias, .start = options.start}),
      split("reshape", name + ".split"),
      transpose(shardwright::transpose(name + ".transpose", heads_outside)),
      count(heads),
      features(of_each) {}

Traced SelfAttention::Heads::operator()(Traced x, const Cached* cached) const {
  const Shape shape = x.type().shape;
  const Traced heads = transpose(split.with("shape", Shape{shape[0], shape[1], count, features})(dense(x)));
  if (!rotary) return heads;
  return cached ? (*rotary)(heads, cached->places) : (*rotary)(heads);
}

SelfAttention::SelfAttention(const std::string& called, std::int64_t width, const Options& options)
    : name(called),
      has_alibi(options.positions == Positions::alibi),
      q(name + ".q", width, options.heads, features_of(width, options), options),
      k(name + ".k", width, options.kv_heads, q.features, options),
      v(name + ".v", width, options.kv_heads, q.features, options),
      is_explicit(options.is_explicit),
      scores(matmul(name + ".scores", {{"transpose_b", true}})),
      weights("attention_weights", name + ".weights", attributes_of(options)),
      attend(options.is_explicit ? matmul(name + ".attend")
                                 : attention(name + ".attend", attributes_of(options))),
      transpose(shardwright::transpose(name + ".transpose", heads_outside)),
      join("reshape", name + ".join"),
      o(name + ".o", width, width, {.bias = options.out_bias, .start = options.start}) {
  if (options.positions != Positions::rotary) return;
  q.rotary = rotary(name + ".q.rotary");
  k.rotary = rotary(name + ".k.rotary");
}

Traced SelfAttention::attended(Traced queries, Traced keys, Traced values) const {
  if (!is_explicit) return attend(queries, keys, values);
  const double scale = 1 / std::sqrt(static_cast<double>(q.features));
  const Shape heads = queries.type().shape,
              of_keys = keys.type().shape;  // [batch, heads, sequence, features]
  const std::int64_t sharing = q.count / k.count;
  if (sharing == 1) return attend(weights.with("scale", scale)(scores(queries, keys)), values);
  // Queries that share keys stand side by side: [batch, kv heads, sharing, sequence, ...]
  const auto shaped = [&](Traced x, const Operator& of, const char* what, Shape shape) {
    return Operator("reshape", fmt::format("{}.{}", of.name(), what)).with("shape", std::move(shape))(x);
  };
  const Shape alone{of_keys[0], of_keys[1], 1, of_keys[2], of_keys[3]};
  const Traced x = scores(shaped(queries, scores, "q", {heads[0], k.count, sharing, heads[2], heads[3]}),
                          shaped(keys, scores, "k", alone));
  const Traced p =
      weights.with("scale", scale)(shaped(x, weights, "x", {heads[0], heads[1], heads[2], of_keys[2]}));
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
  if (cached.is_first) return attended(queries, keys, values);
  Attributes attributes;
  if (has_alibi) attributes.set("alibi", true);
  return trace.call("cached_attention", {queries, of_keys, of_values, cached.places}, attributes,
                    attend.name());
}

Traced SelfAttention::operator()(Traced queries, Traced x, const Cached* cached) const {
  const Traced of_queries = q(queries, cached), keys = k(x, cached), values = v(x, cached);
  const Traced y = transpose(cached ? attended_cached(of_queries, keys, values, *cached)
                                    : attended(of_queries, keys, values));
  return o(join.with("shape", queries.type().shape)(y));
}

}  // namespace shardwright
