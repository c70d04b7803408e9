// The heads of a call of attention, for the kernels that go over them: the reference, and those of backends.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "shardwright/graph/op.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {

constexpr std::int64_t most_attention_features = 512;  // of a head: kernels keep some queries' on the stack

/// In PyTorch: the mask, ALiBi's slopes and what `causal` hides, as one tensor. x may stand for keys, transposed.
inline constexpr const char* attention_bias_in_torch = R"(
def alibi_slopes(heads, all_heads):
    power = 1 << (all_heads.bit_length() - 1)
    return [2.0 ** (-8 * (h + 1) / power) if h < power else 2.0 ** (-4 * (2 * (h - power) + 1) / power) for h in heads]


def attention_bias(q, k, mask, causal, place, alibi):
    """What is added to scores, of the type of q; None: nothing."""
    bias = mask
    apart = torch.arange(k.shape[2], device=q.device) - torch.arange(place, place + q.shape[2], device=q.device).unsqueeze(1)
    if alibi is not None:
        slopes = torch.tensor(alibi_slopes(*alibi), dtype=q.dtype, device=q.device)
        slopes = slopes.reshape(-1, 1, 1) * apart
        bias = slopes if bias is None else bias + slopes
    if causal:
        zero = torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias
        bias = torch.where(apart > 0, torch.full_like(zero, -math.inf), zero)
    return bias
)";

inline constexpr const char* attention_bias_in_jax = R"(
def alibi_slopes(heads, all_heads):
    power, head = 1 << (all_heads.bit_length() - 1), jnp.array(heads, jnp.float64)
    return jnp.where(head < power, 2.0 ** (-8 * (head + 1) / power), 2.0 ** (-4 * (2 * (head - power) + 1) / power))


def attention_bias(q, k, mask, causal, place, alibi):
    """What is added to scores, of the type of q; None: nothing."""
    bias = mask
    apart = jnp.arange(k.shape[2]) - (place + jnp.arange(q.shape[2]))[:, None]
    if alibi is not None:
        slopes = alibi_slopes(*alibi).astype(q.dtype).reshape(-1, 1, 1) * apart.astype(q.dtype)
        bias = slopes if bias is None else bias + slopes
    if causal:
        bias = jnp.where(apart > 0, -jnp.inf, 0 if bias is None else bias).astype(q.dtype)
    return bias
)";

/// Throws: Error unless operand `mask` has a row for each query of operand `q`, with all keys of the one behind it.
inline void check_mask(const Call& call, std::size_t q, std::size_t mask) {
  check_same_dtype(call, q, mask);
  const Shape &m = call.operands[mask].shape, &queries = call.operands[q].shape;
  const std::int64_t batch = queries[0], heads = queries[1], keys = call.operands[q + 1].shape[2];
  const auto is_one_or = [](std::int64_t have, std::int64_t all) { return have == 1 || have == all; };
  const bool has_rows = m.size() >= 2 && m[m.size() - 2] == queries[2] && m.back() == keys;
  const bool is_full = m.size() == 4 && is_one_or(m[0], batch) && is_one_or(m[1], heads);
  if (!has_rows || (m.size() != 2 && !is_full))
    throw error("the mask is {} but should be [{}, {}] or [{} or 1, {} or 1, {}, {}]",
                to_text(call.operands[mask]), queries[2], keys, batch, heads, queries[2], keys);
}

/// The dims of a mask in front of its keys, as a rule says them; `queries` are those of q.
inline std::string mask_dims(const Type& mask, std::string_view queries) {
  if (mask.shape.size() == 2) return std::string(queries);
  return fmt::format("{} {} {}", mask.shape[0] == 1 ? "1" : "b", mask.shape[1] == 1 ? "1" : "(h r)", queries);
}

/// Whose part of the mask, of `keys` to a row, head `g` of `heads` in element `b` of the batch reads: rows of queries before it.
inline std::int64_t mask_rows(const TensorView& mask, std::int64_t b, std::int64_t g, std::int64_t queries) {
  if (mask.shape.size() == 2) return 0;
  const std::int64_t of_batch = mask.shape[0] == 1 ? 0 : b, of_head = mask.shape[1] == 1 ? 0 : g;
  return (of_batch * mask.shape[1] + of_head) * queries;
}

/// One head on this rank; the elements of its mask may be of another type.
template <class T, class M = T>
struct Head {
  using C = Compute<T>;
  static constexpr C never = -std::numeric_limits<C>::infinity();

  const T *q = nullptr, *k = nullptr, *v = nullptr;
  const M* mask = nullptr;
  std::int64_t queries = 0, keys = 0, depth = 0, width = 0;
  std::int64_t position = 0;  // of query 0 among the keys
  bool is_causal = false;
  C scale = 1, slope = 0;

  /// How many keys query i sees.
  std::int64_t seen(std::int64_t i) const {
    return is_causal ? std::clamp(position + i + 1, std::int64_t{0}, keys) : keys;
  }
};

/// 2^(-8 (head + 1) / n), and where n is no power of two as ALiBi's authors go on.
inline double alibi_slope(std::int64_t head, std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const double n = static_cast<double>(power);
  if (head < power) return std::exp2(-8 * static_cast<double>(head + 1) / n);
  return std::exp2(-4 * static_cast<double>(2 * (head - power) + 1) / n);
}

/// Calls `f(head, number, number among those of k and v)` for every head. q, k, v stand from operand `first` on.
template <class T, class F>
void for_each_head(const KernelCall& call, std::size_t first, std::size_t mask_at, F f) {
  using C = Compute<T>;
  const LoopBox::Part &h = call.loop("h"), &r = call.loop("r"), &s = call.loop("s"), &t = call.loop("t");
  const bool has_alibi = call.attributes.flag("alibi"), has_mask = call.operands.size() > mask_at;
  Head<T> head;
  head.queries = s.extent;
  head.keys = t.extent;
  head.depth = call.loop("d").extent;
  head.width = call.loop("e").extent;
  head.position = s.offset + t.size - s.size;
  head.is_causal = call.attributes.flag("causal");
  head.scale = static_cast<C>(
      call.attributes.number("scale", 1 / std::sqrt(static_cast<double>(call.loop("d").size))));
  if (has_mask && call.operands[mask_at].shape.back() != t.extent) throw error("a mask has all keys");
  const std::int64_t heads = h.extent * r.extent, batch = call.loop("b").extent;
  const auto data = [&](std::size_t i) { return call.operands[i].as<T>().data(); };
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t g = 0; g < heads; ++g) {
      const std::int64_t number = b * heads + g, shared = b * h.extent + g / r.extent;
      head.q = data(first) + number * head.queries * head.depth;
      head.k = data(first + 1) + shared * head.keys * head.depth;
      head.v = data(first + 2) + shared * head.keys * head.width;
      if (has_alibi)
        head.slope = static_cast<C>(
            alibi_slope((h.offset + g / r.extent) * r.size + r.offset + g % r.extent, h.size * r.size));
      if (has_mask)
        head.mask = data(mask_at) + mask_rows(call.operands[mask_at], b, g, head.queries) * head.keys;
      f(head, number, shared);
    }
}

}  // namespace shardwright::ops
