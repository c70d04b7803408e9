// Scaled dot-product attention: y = softmax(scale q k^T + bias) v, head by head.
//
//   q [b, heads, s, d]   k [b, kv heads, t, d]   v [b, kv heads, t, e]   mask [s, t] or [b or 1, heads or 1, s, t]
//
// Heads may be several for each head of k and v (grouped, multi-query). The bias is the mask, where there is one,
// with `alibi` slope (j - i), and with `causal` minus infinity for keys behind the query (the last query sees all
// keys). Batch, heads and queries are free; d stays whole, and so do keys, or they go round (attention_turns.h). With m the largest score of a query and l the sum,
//
//   p = e^(scores - m) / l,  dp = dy v^T,  ds = p (dp - sum dy y),  dq = scale ds k,  dk = scale ds^T q,  dv = p^T dy

#include "shardwright/ops/attention.h"

#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/attention_turns.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

template <class T>
double as_double(T x) {
  return static_cast<double>(static_cast<Compute<T>>(x));
}

// ---- types and rules ----

/// Operands q, k, v from `first` on, and the mask, if there is one, at `mask`.
void check_heads(const Call& call, std::size_t first, std::size_t mask) {
  if (call.operands.size() != mask && call.operands.size() != mask + 1)
    throw error("has {} operands but takes {}, and a mask", call.operands.size(), mask);
  check_floating(call.operands[0].dtype);
  for (const char* flag : {"alibi", "causal"}) call.attributes.flag(flag);  // each of its kind
  call.attributes.number("scale", 1);
  for (std::size_t i = 1; i < call.operands.size(); ++i) check_same_dtype(call, 0, i);
  const Type &q = call.operands[first], &k = call.operands[first + 1], &v = call.operands[first + 2];
  for (const Type* t : {&q, &k, &v})
    if (t->shape.size() != 4)
      throw error("{} should be [batch, heads, sequence, features]; reshape and transpose it", to_text(*t));
  if (k.shape[1] == 0 || q.shape[1] % k.shape[1] != 0)
    throw error("q {} has {} heads but should have a multiple of the {} of k {}", to_text(q), q.shape[1],
                k.shape[1], to_text(k));
  for (const Type* t : {&q, &v})
    if (t->shape[3] > most_attention_features)
      throw error("{} has heads of {} features but at most {} are possible", to_text(*t), t->shape[3],
                  most_attention_features);
  if (call.operands.size() == mask) return;
  check_mask(call, first, mask);
}

/// `, s z^`, or nothing where there is no mask: of all keys, wherever these are.
std::string mask_rule(const Call& call, std::size_t mask) {
  return call.operands.size() == mask ? "" : ", " + mask_dims(call.operands[mask], "s") + " z^";
}

std::string rule(const Call& call) {
  check_heads(call, 0, 3);
  return fmt::format("b (h r) s d^, b h t@ d^, b h t@ e{} -> b (h r) s e", mask_rule(call, 3));
}

std::string gradient_rule(const Call& call) {
  check_heads(call, 1, 5);
  return fmt::format(
      "b (h r) s e, b (h r) s d^, b h t@ d^, b h t@ e, b (h r) s e{} -> b (h r) s d^, b h t@ d^, b h t@ e",
      mask_rule(call, 5));
}

std::vector<Type> infer(const Call& call) {
  check_heads(call, 0, 3);
  Shape shape = call.operands[0].shape;
  shape[3] = call.operands[2].shape[3];
  return {{call.operands[0].dtype, std::move(shape)}};
}

std::vector<Type> infer_gradient(const Call& call) {
  check_heads(call, 1, 5);
  return {call.operands[1], call.operands[2], call.operands[3]};
}

double points(const Rule& rule) {  // of the scores
  double n = 1;
  for (const char* name : {"b", "h", "r", "s", "t"})
    n *= static_cast<double>(rule.loops[static_cast<std::size_t>(rule.loop(name))].size);
  return n;
}

/// Multiplications and additions, `with_d` and `with_e` products of each score.
double flops(const Rule& rule, double with_d, double with_e) {
  const auto size = [&](const char* name) {
    return static_cast<double>(rule.loops[static_cast<std::size_t>(rule.loop(name))].size);
  };
  return points(rule) * 2 * (with_d * size("d") + with_e * size("e"));
}

// ---- kernels ----

/// Room for sums in the workspace, taken piece by piece.
class Doubles {
 public:
  explicit Doubles(const KernelCall& call) : next_(reinterpret_cast<double*>(call.workspace)) {}
  std::span<double> take(std::int64_t count) {
    return {std::exchange(next_, next_ + count), static_cast<std::size_t>(count)};
  }

 private:
  double* next_;
};

std::int64_t workspace(const KernelCall& call) {  // p
  return call.loop("t").extent * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t gradient_workspace(const KernelCall& call) {  // p, dk, dv and a row of dq
  const std::int64_t d = call.loop("d").extent, e = call.loop("e").extent;
  return (call.loop("t").extent * (1 + d + e) + d) * static_cast<std::int64_t>(sizeof(double));
}

/// p[j] = e^(scores - m) / l of one query; 0 where it sees no key.
template <class T>
void probabilities(const Head<T>& head, std::int64_t i, std::span<double> p) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  std::fill(p.begin(), p.end(), 0.0);
  for (std::int64_t j = 0; j < head.seen(i); ++j) {
    double s = 0;
    for (std::int64_t f = 0; f < head.depth; ++f)
      s += as_double(head.q[i * head.depth + f]) * as_double(head.k[j * head.depth + f]);
    s = s * head.scale + head.slope * static_cast<double>(j - head.position - i);
    if (head.mask) s += as_double(head.mask[i * head.keys + j]);
    p[static_cast<std::size_t>(j)] = s;
    largest = std::max(largest, s);
  }
  if (largest == -std::numeric_limits<double>::infinity()) return std::fill(p.begin(), p.end(), 0.0);
  for (std::int64_t j = 0; j < head.seen(i); ++j) {
    double& one = p[static_cast<std::size_t>(j)];
    sum += one = std::exp(one - largest);
  }
  for (double& one : p) one /= sum;
}

void kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    T* const y = call.results[0].as<T>().data();
    for_each_head<T>(call, 0, 3, [&](const Head<T>& head, std::int64_t number, std::int64_t) {
      const std::span<double> p = Doubles(call).take(head.keys);
      for (std::int64_t i = 0; i < head.queries; ++i) {
        probabilities(head, i, p);
        for (std::int64_t f = 0; f < head.width; ++f) {
          double sum = 0;
          for (std::int64_t j = 0; j < head.keys; ++j)
            sum += p[static_cast<std::size_t>(j)] * as_double(head.v[j * head.width + f]);
          y[(number * head.queries + i) * head.width + f] = static_cast<T>(static_cast<Compute<T>>(sum));
        }
      }
    });
  });
}

template <class T>
void store(std::span<const double> x, T* to) {
  for (std::size_t i = 0; i < x.size(); ++i) to[i] = static_cast<T>(static_cast<Compute<T>>(x[i]));
}

void gradient_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const std::int64_t sharing = call.loop("r").extent;  // heads that add to the same dk and dv
    for_each_head<T>(call, 1, 5, [&](const Head<T>& head, std::int64_t number, std::int64_t shared) {
      const std::int64_t d = head.depth, e = head.width;
      const T* const dy = call.operands[0].as<T>().data() + number * head.queries * e;
      const T* const y = call.operands[4].as<T>().data() + number * head.queries * e;
      T* const to = call.results[0].as<T>().data() + number * head.queries * d;
      Doubles room(call);
      const std::span<double> p = room.take(head.keys), dk = room.take(head.keys * d),
                              dv = room.take(head.keys * e), dq = room.take(d);
      if (number % sharing == 0) {
        std::ranges::fill(dk, 0.0);
        std::ranges::fill(dv, 0.0);
      }
      for (std::int64_t i = 0; i < head.queries; ++i) {
        probabilities(head, i, p);
        std::ranges::fill(dq, 0.0);
        double mean = 0;
        for (std::int64_t f = 0; f < e; ++f) mean += as_double(dy[i * e + f]) * as_double(y[i * e + f]);
        for (std::int64_t j = 0; j < head.keys; ++j) {
          const double weight = p[static_cast<std::size_t>(j)];
          double dp = 0;
          for (std::int64_t f = 0; f < e; ++f) {
            dp += as_double(dy[i * e + f]) * as_double(head.v[j * e + f]);
            dv[static_cast<std::size_t>(j * e + f)] += weight * as_double(dy[i * e + f]);
          }
          const double ds = weight * (dp - mean) * head.scale;
          for (std::int64_t f = 0; f < d; ++f) {
            dq[static_cast<std::size_t>(f)] += ds * as_double(head.k[j * d + f]);
            dk[static_cast<std::size_t>(j * d + f)] += ds * as_double(head.q[i * d + f]);
          }
        }
        store<T>(dq, to + i * d);
      }
      if (number % sharing != sharing - 1) return;
      store<T>(dk, call.results[1].as<T>().data() + shared * head.keys * d);
      store<T>(dv, call.results[2].as<T>().data() + shared * head.keys * e);
    });
  });
}

std::vector<ValueId> gradient(Gradient& g) {
  std::vector<ValueId> operands{g.dy(), g.in(0), g.in(1), g.in(2), g.out()};
  if (g.operand_count() > 3) operands.push_back(g.in(3));
  std::vector<ValueId> found = g.call_all("attention_grad", std::move(operands), g.attributes());
  if (g.operand_count() > 3) found.emplace_back();
  return found;
}

/// d stands behind q.
template <std::size_t q>
Attributes defaults_of(const Call& call) {
  return {{"alibi", false},
          {"causal", false},
          {"scale", 1 / std::sqrt(static_cast<double>(call.operands[q].shape[3]))}};
}

// ---- in PyTorch ----

std::string attention_in_torch(const Call& call, std::string begin, std::size_t mask) {
  begin += call.operands.size() > mask ? fmt::format("{{{}}}", mask) : "None";
  begin += ", {causal}, {scale}, {place}";
  if (call.attributes.flag("alibi")) begin += ", ({heads}, {all_heads})";
  return begin + ")";
}

/// The place of the first query among the keys, and which heads these are of all.
Attributes heads_in_torch(const KernelCall& call) {
  const LoopBox::Part &h = call.loop("h"), &r = call.loop("r"), &s = call.loop("s"), &t = call.loop("t");
  std::vector<std::int64_t> heads;
  for (std::int64_t g = 0; g < h.extent * r.extent; ++g)
    heads.push_back((h.offset + g / r.extent) * r.size + r.offset + g % r.extent);
  return {{"place", s.offset + t.size - s.size}, {"heads", heads}, {"all_heads", h.size * r.size}};
}

const std::string functions_in_torch = std::string(attention_bias_in_torch) + R"(
def attention_is_plain(q, k, mask, causal, place, alibi):
    """As PyTorch has it in one function."""
    is_square = place == 0 and q.shape[2] == k.shape[2]
    return has_scaled_attention and mask is None and alibi is None and (is_square or not causal)


def attention_shares(q, k, mask, causal, scale, place, alibi):
    """What each query takes of each key; who sees no key gets nothing."""
    bias = attention_bias(q, k, mask, causal, place, alibi)
    scores = q @ k.mT * scale
    return torch.nan_to_num(torch.softmax(scores if bias is None else scores + bias, -1))


def attention(q, k, v, mask, causal, scale, place, alibi=None):
    """Of a mask, of where queries stand among the keys, and of ALiBi's heads."""
    sharing = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(sharing, 1) if sharing > 1 else x for x in (k, v))
    if attention_is_plain(q, k, mask, causal, place, alibi):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    mask = None if mask is None else wide(mask)
    return (attention_shares(wide(q), wide(k), mask, causal, scale, place, alibi) @ wide(v)).to(q.dtype)


def attention_grad(dy, q, k, v, y, mask, causal, scale, place, alibi=None):
    if q.is_cuda and attention_is_plain(q, k, mask, causal, place, alibi):  # scores are nowhere in memory
        with torch.enable_grad():
            of = [x.detach().requires_grad_() for x in (q, k, v)]
            again = attention(*of, mask, causal, scale, place, alibi)
        return torch.autograd.grad(again, of, dy)
    sharing, d, mask = q.shape[1] // k.shape[1], wide(dy), None if mask is None else wide(mask)
    wq, wk, wv = wide(q), *(wide(x).repeat_interleave(sharing, 1) for x in (k, v))
    p = attention_shares(wq, wk, mask, causal, scale, place, alibi)
    ds = p * (d @ wv.mT - (d * wide(y)).sum(-1, keepdim=True)) * scale
    dk, dv = (x.unflatten(1, (k.shape[1], sharing)).sum(2) for x in (ds.mT @ wq, p.mT @ d))
    return (ds @ wk).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
)";

const std::string functions_in_jax = std::string(attention_bias_in_jax) + R"(
def attention_shares(q, k, mask, causal, scale, place, alibi):
    """What each query takes of each key; who sees no key gets nothing."""
    bias = attention_bias(q, k, mask, causal, place, alibi)
    scores = q @ k.mT * scale
    return jnp.nan_to_num(jax.nn.softmax(scores if bias is None else scores + bias, -1))


def attention(q, k, v, mask, causal, scale, place, alibi=None):
    """Of a mask, of where queries stand among the keys, and of ALiBi's heads."""
    sharing, mask = q.shape[1] // k.shape[1], None if mask is None else wide(mask)
    wq, wk, wv = wide(q), *(jnp.repeat(wide(x), sharing, 1) for x in (k, v))
    return (attention_shares(wq, wk, mask, causal, scale, place, alibi) @ wv).astype(q.dtype)


def attention_grad(dy, q, k, v, y, mask, causal, scale, place, alibi=None):
    sharing, d, mask = q.shape[1] // k.shape[1], wide(dy), None if mask is None else wide(mask)
    wq, wk, wv = wide(q), *(jnp.repeat(wide(x), sharing, 1) for x in (k, v))
    p = attention_shares(wq, wk, mask, causal, scale, place, alibi)
    ds = p * (d @ wv.mT - (d * wide(y)).sum(-1, keepdims=True)) * scale
    dk, dv = (x.reshape(k.shape[:2] + (sharing,) + x.shape[2:]).sum(2) for x in (ds.mT @ wq, p.mT @ d))
    return (ds @ wk).astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)
)";

}  // namespace

std::vector<OpDef> attention() {
  return {{.name = "attention",
           .doc = "y = softmax(scale q k^T + mask) v with q [b, heads, s, d], k and v [b, kv heads, t, ..]",
           .attributes = {"alibi", "causal", "scale"},
           .defaults_for = defaults_of<0>,
           .rule_for = rule,
           .linear = "{2}",
           .infer = infer,
           .flops = [](const Rule& rule) { return flops(rule, 1, 1); },
           .gradient = gradient,
           .expand = attention_in_turns,
           .kernel = kernel,
           .workspace = workspace,
           .samples = {"f32[2,4,6,4], f32[2,4,6,4], f32[2,4,6,4] (causal=true)",
                       "f32[2,6,4,2], f32[2,2,6,2], f32[2,2,6,4] (alibi=true, scale=0.5)",
                       "f32[2,6,6,2], f32[2,1,6,2], f32[2,1,6,6] (alibi=true, causal=true)",
                       "f32[2,2,6,4], f32[2,2,4,4], f32[2,2,4,6], f32[6,4]",
                       "f32[2,4,6,2], f32[2,2,4,2], f32[2,2,4,2], f32[2,1,6,4]"},
           .reads_places = true,
           .torch = {.line_for =
                         [](const Call& c) { return attention_in_torch(c, "attention({0}, {1}, {2}, ", 3); },
                     .numbers = heads_in_torch,
                     .functions = functions_in_torch},
           .jax = {.functions = functions_in_jax}},
          {.name = "attention_grad",
           .doc = "gradients of attention for q, k and v, from dy, q, k, v, y and the mask",
           .attributes = {"alibi", "causal", "scale"},
           .defaults_for = defaults_of<1>,
           .rule_for = gradient_rule,
           .linear = "{0}",
           .infer = infer_gradient,
           .flops = [](const Rule& rule) { return flops(rule, 4, 2); },
           .expand = attention_grad_in_turns,
           .kernel = gradient_kernel,
           .workspace = gradient_workspace,
           .samples = {"f32[2,2,6,4], f32[2,2,6,4], f32[2,2,6,4], f32[2,2,6,4], f32[2,2,6,4] (causal=true)",
                       "f32[2,6,4,4], f32[2,6,4,2], f32[2,2,6,2], f32[2,2,6,4], f32[2,6,4,4] "
                       "(alibi=true, scale=0.5)",
                       "f32[2,4,6,2], f32[2,4,6,2], f32[2,2,4,2], f32[2,2,4,2], f32[2,4,6,2], f32[1,4,6,4]"},
           .reads_places = true,
           .torch = {.line_for =
                         [](const Call& c) {
                           return attention_in_torch(c, "attention_grad({0}, {1}, {2}, {3}, {4}, ", 5);
                         },
                     .numbers = heads_in_torch,
                     .functions = functions_in_torch},
           .jax = {.functions = functions_in_jax}}};
}

}  // namespace shardwright::ops
