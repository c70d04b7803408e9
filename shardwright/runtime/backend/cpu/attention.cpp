// Attention and its gradient in blocks of queries and keys, so that no scores are kept: the forward with a running
// maximum and sum (Milakov and Gimelshein 2018; Dao et al. 2022), the gradient with both computed again.
//
// Sums of 16-bit types are taken in floats: q, k and v are copied once for each head.

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/attention.h"
#include "shardwright/ops/block.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/math.h"
#include "shardwright/ops/types.h"
#include "shardwright/runtime/backend/cpu/rows.h"

namespace shardwright::cpu {
namespace {

namespace math = ops::math;
using ops::convert_elements, ops::fold, ops::for_each_head, ops::Head, ops::Largest, ops::Sum, ops::is_short,
    ops::visit_floating;

constexpr std::int64_t query_block = 16, key_block = 64;
constexpr std::int64_t lanes = 16;  // summed side by side

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

/// s[a, j] of queries i.. and keys j..; minus infinity where a query does not see a key, or there is none.
template <class T, class M, class C = Compute<T>>
void scores(const Head<T, M>& head, std::int64_t i, std::int64_t ni, std::int64_t j, C* s) {
  const std::int64_t nj = std::min(key_block, head.keys - j);
  multiply_rows(head.q + i * head.depth, ni, head.k + j * head.depth, nj, head.depth, s);
  for (std::int64_t a = 0; a < ni; ++a) {
    C* const row = s + a * key_block;
    const std::int64_t visible = std::clamp(head.seen(i + a) - j, std::int64_t{0}, nj);
    const C start = static_cast<C>(j - head.position - i - a);
    for (std::int64_t b = 0; b < key_block; ++b)
      row[b] = row[b] * head.scale + head.slope * (start + static_cast<C>(b));
    if (head.mask)
      for (std::int64_t b = 0; b < visible; ++b)
        row[b] += static_cast<C>(head.mask[(i + a) * head.keys + j + b]);
    for (std::int64_t b = visible; b < key_block; ++b) row[b] = head.never;
  }
}
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
  std::array<C, query_block * ops::most_attention_features> kept;
  C *const s = block.data(), *const sums = kept.data();
  for (std::int64_t i = 0; i < head.queries; i += query_block) {
    const std::int64_t ni = std::min(query_block, head.queries - i);
    Running<C> running;
    std::fill_n(sums, ni * head.width, C(0));
    for (std::int64_t j = 0; j < head.seen(i + ni - 1); j += key_block) {
      scores(head, i, ni, j, s);
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
  std::array<C, query_block * ops::most_attention_features> kept;
  C *const p = block.data(), *const dp = gradients.data(), *const dq = kept.data();
  for (std::int64_t i = 0; i < head.queries; i += query_block) {
    const std::int64_t ni = std::min(query_block, head.queries - i), end = head.seen(i + ni - 1);
    const C *const dy = flow.dy + i * head.width, *const y = flow.y + i * head.width;
    Running<C> running;
    for (std::int64_t j = 0; j < end; j += key_block) {
      scores(head, i, ni, j, p);
      for (std::int64_t a = 0; a < ni; ++a) running.take(a, p + a * key_block);
    }
    std::fill_n(dq, ni * head.depth, C(0));
    for (std::int64_t j = 0; j < end; j += key_block) {
      const std::int64_t nj = std::min(key_block, head.keys - j);
      scores(head, i, ni, j, p);
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

/// Room for floats in the workspace, taken piece by piece.
class Floats {
 public:
  explicit Floats(std::byte* room) : next_(reinterpret_cast<float*>(room)) {}

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
std::int64_t floats_bytes(const KernelCall& call, std::int64_t of_keys, std::int64_t d_of_queries,
                          std::int64_t e_of_queries) {
  if (size_of(call.results[0].dtype) >= sizeof(float)) return 0;
  const std::int64_t d = call.loop("d").extent, e = call.loop("e").extent;
  return (call.loop("t").extent * (d + e) * of_keys +
          call.loop("s").extent * (d * d_of_queries + e * e_of_queries)) *
         static_cast<std::int64_t>(sizeof(float));
}

void forward_kernel(const KernelCall& call, std::byte* result, std::byte* room_for_floats) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    T* const y = reinterpret_cast<T*>(result);
    for_each_head<T>(call, 0, 3, [&](const Head<T>& head, std::int64_t number, std::int64_t) {
      const std::int64_t size = head.queries * head.width;
      T* const to = y + number * size;
      if constexpr (is_short<T>) {
        Floats room(room_for_floats);
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

void gradient_kernel(const KernelCall& call, std::byte* result, std::byte* room_for_floats) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const SharedSums<T> sums(call);
    for_each_head<T>(call, 1, 5, [&](const Head<T>& head, std::int64_t number, std::int64_t shared) {
      const std::int64_t of_q = head.queries * head.depth, of_y = head.queries * head.width;
      const T* const dy = call.operands[0].as<T>().data() + number * of_y;
      const T* const y = call.operands[4].as<T>().data() + number * of_y;
      T* const dq = reinterpret_cast<T*>(result) + number * of_q;
      Floats room(room_for_floats);
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

}  // namespace

Rows attention_rows(const FusedCall& fused, Workspace& workspace) {
  const bool is_gradient = fused.op.name == "attention_grad";
  if (!is_gradient && fused.op.name != "attention") return {};
  const KernelCall& call = fused.call;
  const std::int64_t twice = is_gradient ? 2 : 1;
  workspace.reserve(static_cast<std::size_t>(floats_bytes(call, twice, twice, twice)));
  return all_at_once([call, is_gradient, &workspace](std::byte* y) {
    (is_gradient ? gradient_kernel : forward_kernel)(call, y, workspace.data());
  });
}

}  // namespace shardwright::cpu
