// What queries take of keys where their scores lie in memory: the softmax in the middle of attention, with its scale and
// bias, as frameworks fuse it that have no flash attention.
//
//   p = softmax(scale x + bias) over the last dim of x [b, heads, s, t];   dx = scale p (dp - sum dp p)
//
// Scale (1 if it is not said) and bias are those of attention (attention.cpp): `causal` hides keys behind the query,
// `alibi` adds slope (j - i).

#include <algorithm>
#include <numeric>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/attention.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

template <std::size_t operands>
std::vector<Type> infer(const Call& call) {
  for (const char* flag : {"alibi", "causal"}) call.attributes.flag(flag);  // each of its kind
  call.attributes.number("scale", 1);
  Type type = common_type(call, operands);
  if (type.shape.size() != 4)
    throw error("{} should be [batch, heads, queries, keys]; reshape it", to_text(type));
  return {std::move(type)};
}

/// The scores of one query.
struct Query {
  std::int64_t start = 0;  // of its row
  std::int64_t keys = 0, seen = 0;
  std::int64_t place = 0;  // among the keys
  double slope = 0;
};

template <class F>
void for_each_query(const KernelCall& call, F f) {
  const LoopBox::Part &h = call.loop("h"), &s = call.loop("s"), &t = call.loop("t");
  const bool is_causal = call.attributes.flag("causal"), has_alibi = call.attributes.flag("alibi");
  Query query{.keys = t.extent};
  for (std::int64_t b = 0; b < call.loop("b").extent; ++b)
    for (std::int64_t head = 0; head < h.extent; ++head)
      for (std::int64_t i = 0; i < s.extent; ++i) {
        query.place = s.offset + i + t.size - s.size;
        query.seen = is_causal ? std::clamp(query.place + 1, std::int64_t{0}, t.extent) : t.extent;
        query.slope = has_alibi ? alibi_slope(h.offset + head, h.size) : 0;
        f(query);
        query.start += t.extent;
      }
}

template <class T>
void weights(const Query& query, double scale, const T* x, T* p) {
  using C = Compute<T>;
  const auto score = [&](std::int64_t j) {
    return static_cast<C>(scale * static_cast<double>(static_cast<C>(x[j])) +
                          query.slope * static_cast<double>(j - query.place));
  };
  C largest = -std::numeric_limits<C>::infinity();
  for (std::int64_t j = 0; j < query.seen; ++j) largest = std::max(largest, score(j));
  double sum = 0;
  for (std::int64_t j = 0; j < query.seen; ++j) sum += static_cast<double>(std::exp(score(j) - largest));
  for (std::int64_t j = 0; j < query.seen; ++j)
    p[j] = static_cast<T>(static_cast<C>(static_cast<double>(std::exp(score(j) - largest)) / sum));
  std::fill(p + query.seen, p + query.keys, static_cast<T>(C{0}));
}

void kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const x = call.operands[0].as<T>().data();
    T* const p = call.results[0].as<T>().data();
    const double scale = call.attributes.number("scale", 1);
    for_each_query(call, [&](const Query& q) { weights(q, scale, x + q.start, p + q.start); });
  });
}

void gradient_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const T *const dp = call.operands[0].as<T>().data(), *const p = call.operands[1].as<T>().data();
    T* const dx = call.results[0].as<T>().data();
    const double scale = call.attributes.number("scale", 1);
    for_each_query(call, [&](const Query& q) {
      const auto at = [start = q.start](const T* of, std::int64_t j) {
        return static_cast<double>(static_cast<C>(of[start + j]));
      };
      double total = 0;
      for (std::int64_t j = 0; j < q.keys; ++j) total += at(dp, j) * at(p, j);
      for (std::int64_t j = 0; j < q.keys; ++j)
        dx[q.start + j] = static_cast<T>(static_cast<C>(scale * at(p, j) * (at(dp, j) - total)));
    });
  });
}

std::vector<ValueId> gradient(Gradient& g) {
  return {g.call("attention_weights_grad", {g.dy(), g.out()}, g.attributes())};
}

}  // namespace

std::vector<OpDef> attention_weights() {
  return {
      {.name = "attention_weights",
       .doc = "p = softmax(scale x + bias) over the keys of scores [b, heads, queries, keys]",
       .attributes = {"alibi", "causal", "scale"},
       .defaults = {{"alibi", false}, {"causal", false}, {"scale", 1.0}},
       .rule = "b h s t^ -> b h s t^",
       .infer = infer<1>,
       .gradient = gradient,
       .kernel = kernel,
       .samples = {"f32[2,4,6,6] (causal=true, scale=0.5)", "f32[2,6,4,6] (alibi=true)",
                   "f32[1,2,4,6] (causal=true)"},
       .reads_places = true,
       .overwrites = {0},
       .torch = {.line_for =
                     [](const Call& c) {
                       return fmt::format("attention_weights({{0}}, {{causal}}, {{scale}}, {{place}}{})",
                                          c.attributes.flag("alibi") ? ", ({heads}, {all_heads})" : "");
                     },
                 .numbers =
                     [](const KernelCall& c) {
                       const LoopBox::Part &h = c.loop("h"), &s = c.loop("s"), &t = c.loop("t");
                       std::vector<std::int64_t> heads(static_cast<std::size_t>(h.extent));
                       std::iota(heads.begin(), heads.end(), h.offset);
                       return Attributes{
                           {"place", s.offset + t.size - s.size}, {"heads", heads}, {"all_heads", h.size}};
                     },
                 .functions = std::string(attention_bias_in_torch) + R"(
def attention_weights(x, causal, scale, place, alibi=None):
    bias = attention_bias(wide(x), x.mT, None, causal, place, alibi)
    scores = wide(x) * scale
    return torch.nan_to_num(torch.softmax(scores if bias is None else scores + bias, -1)).to(x.dtype)
)"},
       .jax = {.functions = std::string(attention_bias_in_jax) + R"(
def attention_weights(x, causal, scale, place, alibi=None):
    bias = attention_bias(wide(x), x.mT, None, causal, place, alibi)
    scores = wide(x) * scale
    return jnp.nan_to_num(jax.nn.softmax(scores if bias is None else scores + bias, -1)).astype(x.dtype)
)"}},
      {.name = "attention_weights_grad",
       .doc = "dx = scale p (dp - sum of dp p), from dp and p",
       .attributes = {"alibi", "causal", "scale"},
       .defaults = {{"alibi", false}, {"causal", false}, {"scale", 1.0}},
       .rule = "b h s t^, b h s t^ -> b h s t^",
       .linear = "{0}",
       .infer = infer<2>,
       .kernel = gradient_kernel,
       .samples = {"f32[2,4,6,6], f32[2,4,6,6] (causal=true, scale=0.5)",
                   "f32[2,6,4,6], f32[2,6,4,6] (alibi=true)"},
       .reads_places = true,
       .overwrites = {0},
       .torch = {.line = "once(lambda dp, p: {scale} * p * (dp - (dp * p).sum(-1, keepdim=True)), {0}, {1})"},
       .jax = {.line =
                   "once(lambda dp, p: {scale} * p * (dp - (dp * p).sum(-1, keepdims=True)), {0}, {1})"}}};
}

}  // namespace shardwright::ops
