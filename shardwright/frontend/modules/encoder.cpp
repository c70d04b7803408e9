#include "shardwright/frontend/modules/encoder.h"

#include "shardwright/frontend/functions.h"

namespace shardwright {
namespace {

SelfAttention::Options attention_of(const EncoderOptions& o) {
  SelfAttention::Options out{.heads = o.heads, .kv_heads = o.heads, .is_causal = false, .out_bias = true};
  out.is_explicit = o.explicit_attention;
  out.qkv_bias = o.qkv_bias;
  out.start = normal(0.02);
  out.dropout = o.attention_dropout;
  return out;
}

}  // namespace

EncoderLayer::EncoderLayer(const std::string& name, const EncoderOptions& o, Operator activation)
    : norms_before(o.norms_before),
      norm1(name + ".norm1", o.hidden, o.epsilon),
      attention(name + ".attention", o.hidden, attention_of(o)),
      add1(add(name + ".add1")),
      norm2(name + ".norm2", o.hidden, o.epsilon),
      ffn(name + ".ffn", o.hidden, o.ffn, std::move(activation), {.start = normal(0.02)}),
      add2(add(name + ".add2")),
      dropout(o.dropout) {}

Traced EncoderLayer::operator()(Traced x, const Seen& seen) const {
  const auto added = [&](const Operator& sum, Traced y, Traced to) {
    return sum(y, dropped(to, sum.name() + ".dropout", dropout));
  };
  if (norms_before) {
    const Traced y = norm1(x), z = added(add1, x, attention(y, y, nullptr, seen));
    return added(add2, z, ffn(norm2(z)));
  }
  const Traced y = norm1(added(add1, x, attention(x, x, nullptr, seen)));
  return norm2(added(add2, y, ffn(y)));
}

}  // namespace shardwright
