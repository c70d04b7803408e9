// The kernels of experts (ops/experts.cpp): tiles of rows that one expert computes, strip by strip of its inner features, so that
// neither its rows nor its products with all features are ever there at once.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "shardwright/ops/gelu.h"
#include "shardwright/ops/math.h"
#include "shardwright/ops/routed_rows.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops::expert {

// ---- activations ----

constexpr std::array<std::string_view, 4> activations{"silu", "gelu", "relu", "squared_relu"};

inline std::size_t activation_of(const Attributes& attributes) {
  const std::string said = attributes.text("activation", "silu");
  const auto found = std::ranges::find(activations, said);
  if (found == activations.end())
    throw error("activation={}: there are silu, gelu, relu and squared_relu", said);
  return static_cast<std::size_t>(found - activations.begin());
}

template <class C>
struct Activated {
  C value, slope;
};

/// Calls `f` with the activation, a function of one element.
template <class C, class F>
void with_activation(std::size_t number, F f) {
  if (number == 0)
    f([](C x) {
      const C s = math::sigmoid(x);
      return Activated<C>{x * s, s * (1 + x * (1 - s))};
    });
  else if (number == 1)
    f([](C x) { return Activated<C>{gelu_tanh(x), gelu_tanh_derivative(x)}; });
  else if (number == 2)
    f([](C x) { return Activated<C>{x > 0 ? x : C(0), x > 0 ? C(1) : C(0)}; });
  else
    f([](C x) { return Activated<C>{x > 0 ? x * x : C(0), x > 0 ? 2 * x : C(0)}; });
}

// ---- sizes and room ----

constexpr std::int64_t strip = 64;  // inner features at a time
constexpr std::int64_t tile = 16;   // rows at a time

/// This rank's part of a call whose x is operand `x`; behind it ids, weights, up, down, and gate if there is one.
struct Sizes {
  std::int64_t rows, choices, k, f, n, experts;
  bool is_gated;

  Sizes(const KernelCall& call, std::size_t x)
      : choices(call.operands[x + 1].shape.back()),
        k(call.operands[x].shape.back()),
        f(call.operands[x + 3].shape[2]),
        n(call.operands[x + 4].shape[2]),
        experts(call.operands[x + 3].shape[0]),
        is_gated(call.operands.size() > x + 5) {
    const std::span<const std::int64_t> shape = call.operands[x].shape;
    rows = element_count(shape.first(shape.size() - 1));
  }
  std::int64_t ids() const { return rows * choices; }
};

/// Memory that is taken piece by piece, each at a multiple of 64 bytes; without any it counts.
class Room {
 public:
  explicit Room(std::byte* memory) : memory_(memory) {}

  template <class C>
  C* take(std::int64_t count) {
    return reinterpret_cast<C*>(take_bytes(count * static_cast<std::int64_t>(sizeof(C))));
  }
  std::byte* take_bytes(std::int64_t bytes) {
    constexpr std::int64_t line = 64;
    std::byte* const out = memory_ ? memory_ + taken_ : nullptr;
    taken_ += (bytes + line - 1) / line * line;
    return out;
  }
  std::int64_t taken() const { return taken_; }

 private:
  std::byte* memory_;
  std::int64_t taken_ = 0;
};

// ---- small products, in elements that are wide enough for sums ----

/// [rows, columns] of a matrix whose rows lie `stride` apart; or its transpose.
template <class C, class T>
void load(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, C* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      to[r * columns + c] = static_cast<C>(static_cast<Compute<T>>(from[r * stride + c]));
}
template <class C, class T>
void load_transposed(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, C* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      to[c * rows + r] = static_cast<C>(static_cast<Compute<T>>(from[r * stride + c]));
}
template <class C, class T>
void store(const C* from, std::int64_t rows, std::int64_t columns, std::int64_t stride, T* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      to[r * stride + c] = static_cast<T>(static_cast<Compute<T>>(from[r * columns + c]));
}

/// y += a b of [m, k] and [k, n]; row i of y begins at `row(i)`.
template <class C, class Row>
void add_product(const C* a, const C* b, std::int64_t m, std::int64_t k, std::int64_t n, Row row) {
  for (std::int64_t l = 0; l < k; ++l)
    for (std::int64_t i = 0; i < m; ++i) {
      const C factor = a[i * k + l];
      C* const y = row(i);
      const C* const with = b + l * n;
#pragma GCC ivdep
      for (std::int64_t j = 0; j < n; ++j) y[j] += factor * with[j];
    }
}

/// y += a^T b of [m, k] and [m, n].
template <class C>
void add_outer(const C* a, const C* b, std::int64_t m, std::int64_t k, std::int64_t n, C* y) {
  for (std::int64_t l = 0; l < k; ++l)
    for (std::int64_t i = 0; i < m; ++i) {
      const C factor = a[i * k + l];
      C* const to = y + l * n;
      const C* const with = b + i * n;
#pragma GCC ivdep
      for (std::int64_t j = 0; j < n; ++j) to[j] += factor * with[j];
    }
}

// ---- what is walked over ----

/// What is summed over experts and strips: in wide elements where those of the result are short.
template <class T>
struct Sum {
  using C = Compute<T>;
  T* result;
  C* wide;
  std::int64_t count;

  Sum(Room& room, const TensorView& of) : result(of.as<T>().data()), count(of.size()) {
    if constexpr (is_short<T>)
      wide = room.take<C>(count);
    else
      wide = result;
  }
  void begin() const { std::fill_n(wide, count, C(0)); }
  void end() const {
    if constexpr (is_short<T>) store(wide, 1, count, count, result);
  }
};

/// Of a strip of an expert's weights [k, f] what the tiles read.
template <class C>
struct Strip {
  C *up, *gate;

  Strip(Room& room, const Sizes& of)
      : up(room.take<C>(of.k * strip)), gate(room.take<C>(of.is_gated ? of.k * strip : 0)) {}

  /// Calls `f` with each that there is, and the same of `others`: weights, or the strip of another kind.
  template <class Others, class F>
  void each(const Sizes& of, const Others& others, F f) const {
    f(up, others.up);
    if (of.is_gated) f(gate, others.gate);
  }
};

/// Rows of one expert with a strip of inner features.
template <class C>
struct Tile {
  C *x, *up, *gate, *h;

  Tile(Room& room, const Sizes& of)
      : x(room.take<C>(tile * of.k)),
        up(room.take<C>(tile * strip)),
        gate(room.take<C>(of.is_gated ? tile * strip : 0)),
        h(room.take<C>(tile * strip)) {}

  /// u, and g, of `count` rows.
  void products(const Strip<C>& weights, const Sizes& of, std::int64_t count, std::int64_t width) const {
    const auto into = [&](const C* weight, C* y) {
      std::fill_n(y, count * width, C(0));
      add_product(x, weight, count, of.k, width, [y, width](std::int64_t i) { return y + i * width; });
    };
    into(weights.up, up);
    if (of.is_gated) into(weights.gate, gate);
  }
  /// What the activation is of.
  C* activated(const Sizes& of) const { return of.is_gated ? gate : up; }
};

/// Calls `f(ids, count)` for the tiles of one expert's ids.
template <class F>
void for_each_tile(std::span<const std::int64_t> ids, F f) {
  const auto all = static_cast<std::int64_t>(ids.size());
  for (std::int64_t begin = 0; begin < all; begin += tile) f(ids.data() + begin, std::min(tile, all - begin));
}

/// The rows, `width` elements each, of so many ids.
template <class C, class T>
void load_rows(const T* from, std::int64_t width, const std::int64_t* ids, std::int64_t count,
               std::int64_t choices, C* to) {
  for (std::int64_t i = 0; i < count; ++i)
    load(from + ids[i] / choices * width, width, 1, width, to + i * width);
}

template <class T>
struct Forward {
  using C = Compute<T>;
  Room room;
  Sizes of;
  RoutedRows routed;
  Tile<C> at;
  Strip<C> weights;
  C* down;
  Sum<T> y;
  std::size_t activation;

  explicit Forward(const KernelCall& call)
      : room(call.workspace),
        of(call, 0),
        routed(call, 1, room.take_bytes(RoutedRows::bytes(of.ids(), of.experts))),
        at(room, of),
        weights(room, of),
        down(room.take<C>(strip * of.n)),
        y(room, call.results[0]),
        activation(activation_of(call.attributes)) {}

  struct Data {
    const T *x, *w, *up, *down, *gate;
  };

  void run(const Data& data) const {
    y.begin();
    for (std::int64_t e = 0; e < of.experts; ++e)
      for (std::int64_t start = 0; start < of.f && !routed.of(e).empty(); start += strip)
        add_strip(data, e, start, std::min(strip, of.f - start));
    y.end();
  }

  void add_strip(const Data& data, std::int64_t e, std::int64_t start, std::int64_t width) const {
    const std::int64_t k_f = e * of.k * of.f + start;
    weights.each(of, data, [&](C* to, const T* from) { load(from + k_f, of.f, of.k, width, to); });
    load(data.down + (e * of.f + start) * of.n, of.n, width, of.n, down);
    for_each_tile(routed.of(e), [&](const std::int64_t* ids, std::int64_t count) {
      load_rows(data.x, of.k, ids, count, of.choices, at.x);
      at.products(weights, of, count, width);
      with_activation<C>(activation, [&](auto activate) {
        for (std::int64_t i = 0; i < count; ++i) {
          const C weight = static_cast<C>(static_cast<Compute<T>>(data.w[ids[i]]));
          for (std::int64_t s = i * width; s < (i + 1) * width; ++s)
            at.h[s] = weight * activate(at.activated(of)[s]).value * (of.is_gated ? at.up[s] : C(1));
        }
      });
      add_product(at.h, down, count, width, of.n,
                  [this, ids](std::int64_t i) { return y.wide + ids[i] / of.choices * of.n; });
    });
  }
};

template <class T>
struct Backward {
  using C = Compute<T>;
  Room room;
  Sizes of;
  RoutedRows routed;
  Tile<C> at;
  Strip<C> weights, transposed, sums;
  C *down, *ddown;  // the former transposed
  C *dy, *d;        // of the tile
  Sum<T> dx, dw;
  std::size_t activation;

  explicit Backward(const KernelCall& call)
      : room(call.workspace),
        of(call, 1),
        routed(call, 2, room.take_bytes(RoutedRows::bytes(of.ids(), of.experts))),
        at(room, of),
        weights(room, of),
        transposed(room, of),
        sums(room, of),
        down(room.take<C>(of.n * strip)),
        ddown(room.take<C>(of.n * strip)),
        dy(room.take<C>(tile * of.n)),
        d(room.take<C>(tile * strip)),
        dx(room, call.results[0]),
        dw(room, call.results[1]),
        activation(activation_of(call.attributes)) {}

  struct Data {
    const T *dy, *x, *w, *up, *down, *gate;
    struct {
      T *up, *gate;
    } gradients;
    T* ddown;
  };

  void run(const Data& data) const {
    dx.begin();
    dw.begin();
    for (std::int64_t e = 0; e < of.experts; ++e)
      for (std::int64_t start = 0; start < of.f; start += strip) {
        const std::int64_t width = std::min(strip, of.f - start), k_f = e * of.k * of.f + start,
                           f_n = (e * of.f + start) * of.n;
        sums.each(of, sums, [&](C* sum, C*) { std::fill_n(sum, of.k * width, C(0)); });
        std::fill_n(ddown, width * of.n, C(0));
        if (!routed.of(e).empty()) add_strip(data, e, k_f, f_n, width);
        sums.each(of, data.gradients, [&](C* sum, T* to) { store(sum, of.k, width, of.f, to + k_f); });
        store(ddown, width, of.n, of.n, data.ddown + f_n);
      }
    dx.end();
    dw.end();
  }

  void add_strip(const Data& data, std::int64_t e, std::int64_t k_f, std::int64_t f_n,
                 std::int64_t width) const {
    weights.each(of, data, [&](C* to, const T* from) { load(from + k_f, of.f, of.k, width, to); });
    transposed.each(of, data,
                    [&](C* to, const T* from) { load_transposed(from + k_f, of.f, of.k, width, to); });
    load_transposed(data.down + f_n, of.n, width, of.n, down);
    for_each_tile(routed.of(e), [&](const std::int64_t* ids, std::int64_t count) {
      load_rows(data.x, of.k, ids, count, of.choices, at.x);
      load_rows(data.dy, of.n, ids, count, of.choices, dy);
      at.products(weights, of, count, width);
      std::fill_n(d, count * width, C(0));
      add_product(dy, down, count, of.n, width, [this, width](std::int64_t i) { return d + i * width; });
      through_activation(data.w, ids, count, width);
      add_outer(at.h, dy, count, width, of.n, ddown);
      add_back(at.up, transposed.up, sums.up, ids, count, width);
      if (of.is_gated) add_back(at.gate, transposed.gate, sums.gate, ids, count, width);
    });
  }

  /// Of the gradient of one of the first products: what it adds to dx, and to that product's weight.
  void add_back(const C* made, const C* weight, C* sum, const std::int64_t* ids, std::int64_t count,
                std::int64_t width) const {
    add_outer(at.x, made, count, of.k, width, sum);
    add_product(made, weight, count, width, of.k,
                [this, ids](std::int64_t i) { return dx.wide + ids[i] / of.choices * of.k; });
  }

  /// From u, g and d in the tile to du, dg and w h, and to dw.
  void through_activation(const T* w, const std::int64_t* ids, std::int64_t count, std::int64_t width) const {
    with_activation<C>(activation, [&](auto activate) {
      for (std::int64_t i = 0; i < count; ++i) {
        const C weight = static_cast<C>(static_cast<Compute<T>>(w[ids[i]]));
        C sum = 0;
        for (std::int64_t s = i * width; s < (i + 1) * width; ++s) {
          const Activated<C> a = activate(at.activated(of)[s]);
          const C u = of.is_gated ? at.up[s] : C(1), h = a.value * u, dh = weight * d[s];
          sum += d[s] * h;
          at.h[s] = weight * h;
          if (of.is_gated) at.up[s] = dh * a.value;
          at.activated(of)[s] = dh * u * a.slope;
        }
        dw.wide[ids[i]] += sum;
      }
    });
  }
};

/// Bytes that `Kernel` (Forward, Backward) takes of the workspace.
template <template <class> class Kernel>
std::int64_t workspace_of(KernelCall call) {
  std::int64_t out = 0;
  call.workspace = nullptr;
  visit_floating(call.results[0].dtype,
                 [&]<class T>(std::type_identity<T>) { out = Kernel<T>(call).room.taken(); });
  return out;
}

}  // namespace shardwright::ops::expert
