// Scaled dot-product attention: y = softmax(scale q k^T + bias) v, head by head.
//
//   q [b, heads, s, d]   k [b, kv heads, t, d]   v [b, kv heads, t, e]   mask [s, t] or [b or 1, heads or 1, s, t]
//
// Heads may be several for each head of k and v (grouped, multi-query). The bias is the mask, where there is one,
// with `alibi` slope (j - i), and with `causal` minus infinity for keys behind the query (the last query sees all
// keys). Batch, heads and queries are free; keys and d stay whole. No scores are kept: both kernels go over blocks
// of queries and keys, the forward with a running maximum and sum (Milakov and Gimelshein 2018; Dao et al. 2022),
//
//   p = e^(scores - m) / l,  dp = dy v^T,  ds = p (dp - sum dy y),  dq = scale ds k,  dk = scale ds^T q,  dv = p^T dy

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/block.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/math.h"

namespace shardwright::ops {
namespace {

constexpr std::int64_t query_block = 16, key_block = 64;
constexpr std::int64_t lanes = 16;           // summed side by side
constexpr std::int64_t most_features = 512;  // of a head: what a block of queries keeps on the stack

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
    if (t->shape[3] > most_features)
      throw error("{} has heads of {} features but at most {} are possible", to_text(*t), t->shape[3],
                  most_features);
  if (call.operands.size() == mask) return;
  const Type& m = call.operands[mask];
  const bool is_plane = m.shape == Shape{q.shape[2], k.shape[2]};
  const bool is_full = m.shape.size() == 4 && (m.shape[0] == 1 || m.shape[0] == q.shape[0]) &&
                       (m.shape[1] == 1 || m.shape[1] == q.shape[1]) && m.shape[2] == q.shape[2] &&
                       m.shape[3] == k.shape[2];
  if (!is_plane && !is_full)
    throw error("the mask is {} but should be [{}, {}] or [{} or 1, {} or 1, {}, {}]", to_text(m), q.shape[2],
                k.shape[2], q.shape[0], q.shape[1], q.shape[2], k.shape[2]);
}

/// `, s t^`, or nothing where there is no mask.
std::string mask_rule(const Call& call, std::size_t mask) {
  if (call.operands.size() == mask) return "";
  const Shape& shape = call.operands[mask].shape;
  if (shape.size() == 2) return ", s t^";
  return fmt::format(", {} {} s t^", shape[0] == 1 ? "1" : "b", shape[1] == 1 ? "1" : "(h r)");
}

std::string rule(const Call& call) {
  check_heads(call, 0, 3);
  return fmt::format("b (h r) s d^, b h t^ d^, b h t^ e{} -> b (h r) s e", mask_rule(call, 3));
}

std::string gradient_rule(const Call& call) {
  check_heads(call, 1, 5);
  return fmt::format(
      "b (h r) s e, b (h r) s d^, b h t^ d^, b h t^ e, b (h r) s e{} -> b (h r) s d^, b h t^ d^, b h t^ e",
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

// ---- blocks ----

/// A strip of `lanes` columns of `rows` rows of to[i, f] += sum_k w[i, k] y[k, f]: the sums stay in registers.
template <std::size_t rows, class C>
void add_strip(const C* w, std::int64_t step_i, std::int64_t step_k, std::int64_t count, const C* y,
               std::int64_t step_y, C* to, std::int64_t step_to) {
  using Lanes [[gnu::vector_size(lanes * sizeof(C)), gnu::aligned(sizeof(C))]] = C;
  Lanes sums[rows] = {};  // std::array drops the attribute of its type
  for (std::int64_t k = 0; k < count; ++k) {
    Lanes v{};
    std::memcpy(&v, y + k * step_y, sizeof v);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < rows; ++i)
      sums[i] += w[static_cast<std::int64_t>(i) * step_i + k * step_k] * v;
  }
  for (std::size_t i = 0; i < rows; ++i)
    for (std::int64_t l = 0; l < lanes; ++l) to[static_cast<std::int64_t>(i) * step_to + l] += sums[i][l];
}

/// The same for `features` columns.
template <std::size_t rows, class C>
void add_tile(const C* w, std::int64_t step_i, std::int64_t step_k, std::int64_t count, const C* y,
              std::int64_t features, C* to) {
  const std::int64_t in_strips = features - features % lanes;
  for (std::int64_t f = 0; f < in_strips; f += lanes)
    add_strip<rows>(w, step_i, step_k, count, y + f, features, to + f, features);
  if (in_strips == features) return;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < count; ++k) {
      const C v = w[static_cast<std::int64_t>(i) * step_i + k * step_k];
      for (std::int64_t g = in_strips; g < features; ++g)
        to[static_cast<std::int64_t>(i) * features + g] += v * y[k * features + g];
    }
}

/// to[i, f] += sum_k w[i * step_i + k * step_k] y[k, f], the rows of y and `to` being `features` long.
template <class C>
void add_products(const C* w, std::int64_t ni, std::int64_t step_i, std::int64_t nk, std::int64_t step_k,
                  const C* y, std::int64_t features, C* to) {
  std::int64_t i = 0;
  for (; i + 8 <= ni; i += 8) add_tile<8>(w + i * step_i, step_i, step_k, nk, y, features, to + i * features);
  for (; i < ni; ++i) add_tile<1>(w + i * step_i, step_i, step_k, nk, y, features, to + i * features);
}

/// out[a, j] = sum_f x[a, f] y[j, f] for the rows of a block each. y is turned first, so that j runs fastest.
template <class C>
void multiply_rows(const C* x, std::int64_t nx, const C* y, std::int64_t ny, std::int64_t features, C* out) {
  constexpr std::int64_t chunk = 64;
  std::array<C, chunk * key_block> turned;
  C* const t = turned.data();
  std::fill_n(out, nx * key_block, C(0));
  std::fill_n(t, chunk * key_block, C(0));
  for (std::int64_t start = 0; start < features; start += chunk) {
    const std::int64_t width = std::min(chunk, features - start);
    for (std::int64_t j = 0; j < ny; ++j)
      for (std::int64_t f = 0; f < width; ++f) t[f * key_block + j] = y[j * features + start + f];
    add_products(x + start, nx, features, width, 1, t, key_block, out);
  }
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

  /// s[a, j] of queries i.. and keys j..; minus infinity where a query does not see a key, or there is none.
  void scores(std::int64_t i, std::int64_t ni, std::int64_t j, C* s) const {
    const std::int64_t nj = std::min(key_block, keys - j);
    multiply_rows(q + i * depth, ni, k + j * depth, nj, depth, s);
    for (std::int64_t a = 0; a < ni; ++a) {
      C* const row = s + a * key_block;
      const std::int64_t visible = std::clamp(seen(i + a) - j, std::int64_t{0}, nj);
      const C start = static_cast<C>(j - position - i - a);
      for (std::int64_t b = 0; b < key_block; ++b)
        row[b] = row[b] * scale + slope * (start + static_cast<C>(b));
      if (mask)
        for (std::int64_t b = 0; b < visible; ++b) row[b] += static_cast<C>(mask[(i + a) * keys + j + b]);
      for (std::int64_t b = visible; b < key_block; ++b) row[b] = never;
    }
  }
};

/// The running softmax of a block of queries: largest score and sum of e^(score - largest) per row.
template <class C>
struct Running {
  std::array<C, query_block> largest;
  std::array<double, query_block> sum{};

  Running() { largest.fill(-std::numeric_limits<C>::infinity()); }

  /// Takes in a row of scores and makes them e^(score - largest); what was summed before weighs the result less.
  C take(std::int64_t a, C* row) {
    const auto at = static_cast<std::size_t>(a);
    const C most = fold<Largest>(key_block, [row](std::int64_t b) { return row[b]; });
    const C next = std::max(largest[at], most), infinity = std::numeric_limits<C>::infinity();
    if (next == -infinity) {
      std::fill_n(row, key_block, C(0));
      return 1;
    }
    for (std::int64_t b = 0; b < key_block; ++b) row[b] = math::exp(row[b] - next);
    const C weight = largest[at] == -infinity ? C(0) : math::exp(largest[at] - next);
    largest[at] = next;
    sum[at] = sum[at] * static_cast<double>(weight) +
              fold<Sum>(key_block, [row](std::int64_t b) { return row[b]; });
    return weight;
  }

  C inverse(std::int64_t a) const {
    const double s = sum[static_cast<std::size_t>(a)];
    return static_cast<C>(s > 0 ? 1 / s : 0);
  }
};

template <class C, class M>
void forward(const Head<C, M>& head, C* y) {
  std::array<C, query_block * key_block> block;
  std::array<C, query_block * most_features> kept;
  C *const s = block.data(), *const sums = kept.data();
  for (std::int64_t i = 0; i < head.queries; i += query_block) {
    const std::int64_t ni = std::min(query_block, head.queries - i);
    Running<C> running;
    std::fill_n(sums, ni * head.width, C(0));
    for (std::int64_t j = 0; j < head.seen(i + ni - 1); j += key_block) {
      head.scores(i, ni, j, s);
      for (std::int64_t a = 0; a < ni; ++a) {
        const C weight = running.take(a, s + a * key_block);
        C* const row = sums + a * head.width;
        for (std::int64_t f = 0; f < head.width; ++f) row[f] *= weight;
      }
      add_products(s, ni, key_block, std::min(key_block, head.keys - j), 1, head.v + j * head.width,
                   head.width, sums);
    }
    for (std::int64_t a = 0; a < ni; ++a) {
      const C scale = running.inverse(a);
      for (std::int64_t f = 0; f < head.width; ++f)
        y[(i + a) * head.width + f] = sums[a * head.width + f] * scale;
    }
  }
}

/// What flows in and out of one head; dk and dv are added to.
template <class C>
struct Flow {
  const C *dy = nullptr, *y = nullptr;
  C *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

template <class C, class M>
void backward(const Head<C, M>& head, const Flow<C>& flow) {
  std::array<C, query_block * key_block> block, gradients;
  std::array<C, query_block * most_features> kept;
  C *const p = block.data(), *const dp = gradients.data(), *const dq = kept.data();
  for (std::int64_t i = 0; i < head.queries; i += query_block) {
    const std::int64_t ni = std::min(query_block, head.queries - i), end = head.seen(i + ni - 1);
    const C *const dy = flow.dy + i * head.width, *const y = flow.y + i * head.width;
    Running<C> running;
    for (std::int64_t j = 0; j < end; j += key_block) {
      head.scores(i, ni, j, p);
      for (std::int64_t a = 0; a < ni; ++a) running.take(a, p + a * key_block);
    }
    std::fill_n(dq, ni * head.depth, C(0));
    for (std::int64_t j = 0; j < end; j += key_block) {
      const std::int64_t nj = std::min(key_block, head.keys - j);
      head.scores(i, ni, j, p);
      multiply_rows(dy, ni, head.v + j * head.width, nj, head.width, dp);
      for (std::int64_t a = 0; a < ni; ++a) {
        const C largest = running.largest[static_cast<std::size_t>(a)], inverse = running.inverse(a);
        const C *const g = dy + a * head.width, *const out = y + a * head.width;
        const C mean =
            static_cast<C>(fold<Sum>(head.width, [g, out](std::int64_t f) { return g[f] * out[f]; }));
        C *const row = p + a * key_block, *const drow = dp + a * key_block;
        for (std::int64_t b = 0; b < key_block; ++b) {
          row[b] = inverse > 0 ? math::exp(row[b] - largest) * inverse : C(0);
          drow[b] = row[b] * (drow[b] - mean) * head.scale;
        }
      }
      add_products(dp, ni, key_block, nj, 1, head.k + j * head.depth, head.depth, dq);
      add_products(dp, nj, 1, ni, key_block, head.q + i * head.depth, head.depth, flow.dk + j * head.depth);
      add_products(p, nj, 1, ni, key_block, dy, head.width, flow.dv + j * head.width);
    }
    std::copy_n(dq, ni * head.depth, flow.dq + i * head.depth);
  }
}

// ---- all heads of this rank ----

/// 2^(-8 (head + 1) / n), and where n is no power of two as ALiBi's authors go on.
double slope_of(std::int64_t head, std::int64_t heads) {
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
            slope_of((h.offset + g / r.extent) * r.size + r.offset + g % r.extent, h.size * r.size));
      if (has_mask) {
        const std::span<const std::int64_t> shape = call.operands[mask_at].shape;
        const bool is_plane = shape.size() == 2;
        const std::int64_t of_batch = is_plane || shape[0] == 1 ? 0 : b,
                           of_head = is_plane || shape[1] == 1 ? 0 : g;
        head.mask =
            data(mask_at) + (of_batch * (is_plane ? 1 : shape[1]) + of_head) * head.queries * head.keys;
      }
      f(head, number, shared);
    }
}

/// Room for floats in the workspace, taken piece by piece.
class Floats {
 public:
  explicit Floats(const KernelCall& call) : next_(reinterpret_cast<float*>(call.workspace)) {}

  float* take(std::int64_t count) { return std::exchange(next_, next_ + count); }
  template <class T>
  const float* copy_of(const T* x, std::int64_t count) {
    float* const out = take(count);
    convert_elements<T, float>(reinterpret_cast<const std::byte*>(x), reinterpret_cast<std::byte*>(out),
                               count);
    return out;
  }

 private:
  float* next_;
};

template <class T>
void store(const float* x, std::int64_t count, T* y) {
  convert_elements<float, T>(reinterpret_cast<const std::byte*>(x), reinterpret_cast<std::byte*>(y), count);
}

/// The head with q, k and v in floats: both kernels read them again and again.
template <class T>
Head<float, T> in_floats(const Head<T>& head, Floats& room) {
  Head<float, T> out;
  out.q = room.copy_of(head.q, head.queries * head.depth);
  out.k = room.copy_of(head.k, head.keys * head.depth);
  out.v = room.copy_of(head.v, head.keys * head.width);
  out.mask = head.mask;
  out.queries = head.queries;
  out.keys = head.keys;
  out.depth = head.depth;
  out.width = head.width;
  out.position = head.position;
  out.is_causal = head.is_causal;
  out.scale = head.scale;
  out.slope = head.slope;
  return out;
}

/// Bytes of as many floats for every feature of the keys and of the queries; none if the kernels need no copies.
std::int64_t workspace(const KernelCall& call, std::int64_t of_keys, std::int64_t d_of_queries,
                       std::int64_t e_of_queries) {
  if (size_of(call.results[0].dtype) >= sizeof(float)) return 0;
  const std::int64_t d = call.loop("d").extent, e = call.loop("e").extent;
  return (call.loop("t").extent * (d + e) * of_keys +
          call.loop("s").extent * (d * d_of_queries + e * e_of_queries)) *
         static_cast<std::int64_t>(sizeof(float));
}

void kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    T* const y = call.results[0].as<T>().data();
    for_each_head<T>(call, 0, 3, [&](const Head<T>& head, std::int64_t number, std::int64_t) {
      const std::int64_t size = head.queries * head.width;
      T* const to = y + number * size;
      if constexpr (is_short<T>) {
        Floats room(call);
        const Head<float, T> own = in_floats(head, room);
        float* const sums = room.take(size);
        vectorized([own, sums] { forward(own, sums); });
        store(sums, size, to);
      } else {
        vectorized([head, to] { forward(head, to); });
      }
    });
  });
}

std::int64_t kernel_workspace(const KernelCall& call) { return workspace(call, 1, 1, 1); }

/// dk and dv of one head of k and v: sums over many heads and queries, in the result itself or, where its type is too
/// short for them, in the workspace until the last head that shares them has added its part.
template <class T>
class SharedSums {
 public:
  using C = Compute<T>;

  SharedSums(const KernelCall& call) : call_(call), heads_(call.loop("r").extent) {}

  /// Those that head `number` adds to, the first floats of `room`.
  Flow<C> of(const Head<T>& head, std::int64_t number, std::int64_t shared, Floats& room) const {
    const std::int64_t dk = head.keys * head.depth, dv = head.keys * head.width;
    Flow<C> flow;
    if constexpr (is_short<T>) {
      flow.dk = room.take(dk);
      flow.dv = room.take(dv);
    } else {
      flow.dk = result(1) + shared * dk;
      flow.dv = result(2) + shared * dv;
    }
    if (number % heads_ == 0) {
      std::fill_n(flow.dk, dk, C(0));
      std::fill_n(flow.dv, dv, C(0));
    }
    return flow;
  }

  /// Behind head `number`.
  void keep(const Head<T>& head, const Flow<C>& flow, std::int64_t number, std::int64_t shared) const {
    if constexpr (is_short<T>) {
      if (number % heads_ != heads_ - 1) return;
      const std::int64_t dk = head.keys * head.depth, dv = head.keys * head.width;
      store(flow.dk, dk, result(1) + shared * dk);
      store(flow.dv, dv, result(2) + shared * dv);
    }
  }

 private:
  T* result(std::size_t i) const { return call_.results[i].as<T>().data(); }
  const KernelCall& call_;
  std::int64_t heads_;
};

void gradient_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const SharedSums<T> sums(call);
    for_each_head<T>(call, 1, 5, [&](const Head<T>& head, std::int64_t number, std::int64_t shared) {
      const std::int64_t of_q = head.queries * head.depth, of_y = head.queries * head.width;
      const T* const dy = call.operands[0].as<T>().data() + number * of_y;
      const T* const y = call.operands[4].as<T>().data() + number * of_y;
      T* const dq = call.results[0].as<T>().data() + number * of_q;
      Floats room(call);
      Flow<Compute<T>> flow = sums.of(head, number, shared, room);
      if constexpr (is_short<T>) {
        const Head<float, T> own = in_floats(head, room);
        flow.dy = room.copy_of(dy, of_y);
        flow.y = room.copy_of(y, of_y);
        flow.dq = room.take(of_q);
        vectorized([own, flow] { backward(own, flow); });
        store(flow.dq, of_q, dq);
      } else {
        flow.dy = dy;
        flow.y = y;
        flow.dq = dq;
        vectorized([head, flow] { backward(head, flow); });
      }
      sums.keep(head, flow, number, shared);
    });
  });
}

std::int64_t gradient_workspace(const KernelCall& call) { return workspace(call, 2, 2, 2); }

std::vector<ValueId> gradient(Gradient& g) {
  std::vector<ValueId> operands{g.dy(), g.in(0), g.in(1), g.in(2), g.out()};
  if (g.operand_count() > 3) operands.push_back(g.in(3));
  std::vector<ValueId> found = g.call_all("attention_grad", std::move(operands), g.attributes());
  if (g.operand_count() > 3) found.emplace_back();
  return found;
}

}  // namespace

std::vector<OpDef> attention() {
  return {
      {
          .name = "attention",
          .doc = "y = softmax(scale q k^T + mask) v with q [b, heads, s, d], k and v [b, kv heads, t, ..]",
          .attributes = {"alibi", "causal", "scale"},
          .rule_for = rule,
          .linear = "{2}",
          .infer = infer,
          .flops = [](const Rule& rule) { return flops(rule, 1, 1); },
          .gradient = gradient,
          .kernel = kernel,
          .workspace = kernel_workspace,
          .samples = {"f32[2,4,6,4], f32[2,4,6,4], f32[2,4,6,4] (causal=true)",
                      "f32[2,6,4,2], f32[2,2,6,2], f32[2,2,6,4] (alibi=true, scale=0.5)",
                      "f32[2,6,6,2], f32[2,1,6,2], f32[2,1,6,6] (alibi=true, causal=true)",
                      "f32[2,2,6,4], f32[2,2,4,4], f32[2,2,4,6], f32[6,4]",
                      "f32[2,4,6,2], f32[2,2,4,2], f32[2,2,4,2], f32[2,1,6,4]"},
      },
      {
          .name = "attention_grad",
          .doc = "gradients of attention for q, k and v, from dy, q, k, v, y and the mask",
          .attributes = {"alibi", "causal", "scale"},
          .rule_for = gradient_rule,
          .linear = "{0}",
          .infer = infer_gradient,
          .flops = [](const Rule& rule) { return flops(rule, 4, 2); },
          .kernel = gradient_kernel,
          .workspace = gradient_workspace,
          .samples = {"f32[2,2,6,4], f32[2,2,6,4], f32[2,2,6,4], f32[2,2,6,4], f32[2,2,6,4] (causal=true)",
                      "f32[2,6,4,4], f32[2,6,4,2], f32[2,2,6,2], f32[2,2,6,4], f32[2,6,4,4] "
                      "(alibi=true, scale=0.5)",
                      "f32[2,4,6,2], f32[2,4,6,2], f32[2,2,4,2], f32[2,2,4,2], f32[2,4,6,2], f32[1,4,6,4]"},
      }};
}

}  // namespace shardwright::ops
