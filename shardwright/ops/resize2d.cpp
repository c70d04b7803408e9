// Images made larger or smaller: x [batch, channels, rows, columns] becomes y of `size` rows and columns, and the gradient.
//
//   nearest    y[q] = x[floor(q n / N)] along each of the two dims, of size n in x and N in y
//   bilinear   y[q] = (1 - share) x[left] + share x[left + 1], left and share being the whole and the rest of
//              (q + 1/2) n / N - 1/2 (0 where that is below), or of q (n - 1) / (N - 1) with align_corners
//
// Places are quotients of integers, so that they are exact, and a part of the rows reads a window of them; so does the
// gradient, which is `size` large itself. All dims may be split.

#include <algorithm>
#include <numeric>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/listed_dims.h"
#include "shardwright/ops/resize2d_in_python.h"
#include "shardwright/ops/sliding.h"

namespace shardwright::ops {
namespace {

enum class Resizing : std::uint8_t { nearest, bilinear, corners };

Resizing resizing_of(const Attributes& a) {
  const bool corners = a.flag("align_corners");
  const std::string mode = a.text("mode", "nearest");
  if (mode == "nearest" && corners) throw error("align_corners=true is of mode=bilinear");
  if (mode == "nearest") return Resizing::nearest;
  if (mode != "bilinear") throw error("mode={} is neither nearest nor bilinear", mode);
  return corners ? Resizing::corners : Resizing::bilinear;
}

/// Where an element of y lies in x: `share` of the one at `right`, the rest of that at `left`.
struct Tap {
  std::int64_t left = 0, right = 0;
  double share = 0;
};

/// One dim of n elements in x and N in y: element q of y lies at (q step + start) / unit of x.
struct Resized {
  std::int64_t n = 1, step = 1, start = 0, unit = 1;
  bool is_nearest = true;

  Resized(Resizing how, std::int64_t from, std::int64_t to) : n(from), step(from), unit(to) {
    const bool corners = how == Resizing::corners;
    is_nearest = how == Resizing::nearest || n == to || n == 1 || (corners && to == 1);
    if (is_nearest) return;
    if (corners) {
      step = n - 1;
      unit = to - 1;
    } else {
      step = 2 * n;
      start = n - to;
      unit = 2 * to;
    }
  }

  Tap at(std::int64_t q) const {
    const std::int64_t place = std::max<std::int64_t>(q * step + start, 0), left = place / unit;
    if (is_nearest || left >= n - 1) return {std::min(left, n - 1), std::min(left, n - 1), 0};
    const std::int64_t rest = place % unit;
    return {left, rest == 0 ? left : left + 1, static_cast<double>(rest) / static_cast<double>(unit)};
  }

  /// What elements of y read of x: from the left one of the first to the right one of the last.
  Window reads() const { return window(step, unit, start - unit + 1, is_nearest ? start : start + unit); }
  /// What elements of x are read by: those that lie less than one away.
  Window is_read() const {
    if (is_nearest) return window(unit, step, 0, unit - 1);
    return window(unit, step, -unit - start + 1, unit - start - 1);
  }

 private:
  /// In smallest numbers, so that one that is no wider than its part is seen to be none (layout/rule.cpp). It begins at the
  /// start, where that is not split.
  static Window window(std::int64_t num, std::int64_t den, std::int64_t low, std::int64_t high) {
    const std::int64_t g = std::gcd(num, den);
    const auto down = [g](std::int64_t a) { return a >= 0 ? a / g : -((g - 1 - a) / g); };
    return {0, num / g, den / g, std::min<std::int64_t>(-down(-low), 0), down(high)};
  }
};

// ---- types ----

/// Of an operand of that shape and a result of attribute `size`, the one being x and the other y.
std::array<Resized, 2> resized(const Attributes& a, const Shape& operand, bool is_gradient) {
  const Resizing how = resizing_of(a);
  const auto size = numbers<2>(a, "size", 1, 0);
  const auto of = [&](std::size_t d) {
    return is_gradient ? Resized(how, size[d], operand[2 + d]) : Resized(how, operand[2 + d], size[d]);
  };
  return {of(0), of(1)};
}

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  check_floating(call.operands[0].dtype);
  check_images(call, 0, "[batch, channels, rows, columns]");
  Shape shape = call.operands[0].shape;
  resizing_of(call.attributes);
  const auto size = numbers<2>(call.attributes, "size", 1, 0);
  constexpr std::int64_t most = most_of_window / 2;  // products of two fit in 64 bits
  for (std::size_t d = 0; d < 2; ++d) {
    if (shape[2 + d] < 1 || shape[2 + d] > most || size[d] > most)
      throw error("dim {} of {} elements cannot become {}: both should be from 1 to {}", 2 + d, shape[2 + d],
                  size[d], most);
    shape[2 + d] = size[d];
  }
  return {{call.operands[0].dtype, std::move(shape)}};
}

template <bool is_gradient>
std::string rule(const Call& call) {
  check_count(call, 1);
  const auto dims = resized(call.attributes, call.operands[0].shape, is_gradient);
  const auto text = [](const Resized& dim) {
    const Window w = is_gradient ? dim.is_read() : dim.reads();
    return fmt::format("~({} {} {} {})", w.num, w.den, w.low, w.high);
  };
  return fmt::format("b c h{} w{} -> b c h w", text(dims[0]), text(dims[1]));
}

template <bool is_gradient>
std::vector<ValueId> gradient(Gradient& g) {
  Attributes back = g.attributes();
  const Shape& x = g.type(g.in(0)).shape;
  back.set("size", List{x[2], x[3]});
  return {g.call(is_gradient ? "resize2d" : "resize2d_grad", {g.dy()}, std::move(back))};
}

// ---- kernels ----

/// One dim on one rank: which part of the result is computed, and which window of the operand is there.
struct Part {
  Resized dim;
  std::int64_t first, count;  // of the result
  std::int64_t begin, held;   // of the operand

  Part(const KernelCall& call, std::size_t d, const char* loop, bool is_gradient)
      : dim(is_gradient
                ? Resized(resizing_of(call.attributes), call.loop(loop).size, call.rule.operands[0].shape[d])
                : Resized(resizing_of(call.attributes), call.rule.operands[0].shape[d],
                          call.loop(loop).size)),
        first(call.loop(loop).offset),
        count(call.loop(loop).extent),
        held(call.operands[0].shape[d]) {
    const Window w = is_gradient ? dim.is_read() : dim.reads();
    begin = window_begin(first, w.num, w.den, w.low);
  }
};

void kernel(const KernelCall& call) {
  const Part rows(call, 2, "h", false), columns(call, 3, "w", false);
  const std::int64_t planes = call.operands[0].shape[0] * call.operands[0].shape[1];
  Tap* const taps = reinterpret_cast<Tap*>(call.workspace);
  for (std::int64_t j = 0; j < columns.count; ++j) {
    const Tap tap = columns.dim.at(columns.first + j);
    taps[j] = {tap.left - columns.begin, tap.right - columns.begin, tap.share};
  }
  const bool is_nearest = rows.dim.is_nearest && columns.dim.is_nearest;
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const x = call.operands[0].as<T>().data();
    T* const y = call.results[0].as<T>().data();
    vectorized([=] {
      using C = Compute<T>;
      for (std::int64_t row = 0; row < planes * rows.count; ++row) {
        const std::int64_t q = row % rows.count, plane = row / rows.count * rows.held;
        const Tap at = rows.dim.at(rows.first + q);
        const T* const top = x + (plane + at.left - rows.begin) * columns.held;
        const T* const bottom = x + (plane + at.right - rows.begin) * columns.held;
        T* const to = y + row * columns.count;
        if (is_nearest) {
          for (std::int64_t j = 0; j < columns.count; ++j) to[j] = top[taps[j].left];
          continue;
        }
        const C below = static_cast<C>(at.share), above = static_cast<C>(1 - at.share);
        for (std::int64_t j = 0; j < columns.count; ++j) {
          const C right = static_cast<C>(taps[j].share), left = static_cast<C>(1 - taps[j].share);
          const auto mixed = [&](const T* from) {
            return left * static_cast<C>(from[taps[j].left]) + right * static_cast<C>(from[taps[j].right]);
          };
          to[j] = static_cast<T>(above * mixed(top) + below * mixed(bottom));
        }
      }
    });
  });
}

/// How much of element `p` an element of y with this tap takes.
double share_of(const Tap& tap, std::int64_t p) {
  return (tap.left == p ? 1 - tap.share : 0) + (tap.right == p && tap.right != tap.left ? tap.share : 0);
}

void gradient_kernel(const KernelCall& call) {
  const Part rows(call, 2, "h", true), columns(call, 3, "w", true);
  const std::int64_t planes = call.operands[0].shape[0] * call.operands[0].shape[1];
  Tap* const taps = reinterpret_cast<Tap*>(call.workspace);
  double* const sums = reinterpret_cast<double*>(taps + columns.held);
  for (std::int64_t j = 0; j < columns.held; ++j) {
    const Tap tap = columns.dim.at(columns.begin + j);
    taps[j] = {tap.left - columns.first, tap.right - columns.first, tap.share};
  }
  const Window w = rows.dim.is_read();
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const dy = call.operands[0].as<T>().data();
    T* dx = call.results[0].as<T>().data();
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (std::int64_t p = rows.first; p < rows.first + rows.count; ++p, dx += columns.count) {
        std::fill_n(sums, columns.count, 0.0);
        const std::int64_t begin = window_begin(p, w.num, w.den, w.low);
        const std::int64_t end = std::min((p * w.num + w.high) / w.den + 1, rows.begin + rows.held);
        for (std::int64_t q = begin; q < end; ++q) {
          const double by = share_of(rows.dim.at(q), p);
          if (by == 0) continue;
          const T* const from = dy + (plane * rows.held + q - rows.begin) * columns.held;
          for (std::int64_t j = 0; j < columns.held; ++j) {
            const double part = by * static_cast<double>(static_cast<Compute<T>>(from[j]));
            const auto [left, right, share] = taps[j];
            if (left >= 0 && left < columns.count) sums[left] += (1 - share) * part;
            if (right != left && right >= 0 && right < columns.count) sums[right] += share * part;
          }
        }
        for (std::int64_t j = 0; j < columns.count; ++j)
          dx[j] = static_cast<T>(static_cast<Compute<T>>(sums[j]));
      }
  });
}

constexpr auto tap_bytes = static_cast<std::int64_t>(sizeof(Tap));

/// In Python: where parts begin, and how large all of it is.
template <bool is_gradient>
Attributes parts_of(const KernelCall& call) {
  const Part rows(call, 2, "h", is_gradient), columns(call, 3, "w", is_gradient);
  const List result{call.loop("h").size, call.loop("w").size};
  const List operand{call.rule.operands[0].shape[2], call.rule.operands[0].shape[3]};
  return {{"first", List{rows.first, columns.first}},
          {"begin", List{rows.begin, columns.begin}},
          {"of_x", is_gradient ? result : operand},
          {"of_y", is_gradient ? operand : result}};
}

}  // namespace

std::vector<OpDef> resize2d() {
  const std::vector<std::string> attributes{"align_corners", "mode", "size"};
  const Attributes defaults{{"align_corners", false}, {"mode", std::string("nearest")}};
  const char* const numbers = "{shape}, {mode}, {align_corners}, {first}, {begin}, {of_x}, {of_y})";
  return {
      {.name = "resize2d",
       .doc = "images [b, c, h, w] of `size` rows and columns: y[q] = x[floor(q n / N)], or with "
              "mode=bilinear a mean "
              "of the two beside (q + 1/2) n / N - 1/2, or with align_corners beside q (n - 1) / (N - 1)",
       .attributes = attributes,
       .defaults = defaults,
       .rule_for = rule<false>,
       .linear = "{0}",
       .infer = infer,
       .gradient = gradient<false>,
       .kernel = kernel,
       .workspace = [](const KernelCall& call) { return call.loop("w").extent * tap_bytes; },
       .samples = {"f32[2,4,6,6] (size=[12, 12])", "f32[2,2,6,4] (mode=bilinear, size=[12, 12])",
                   "f32[2,2,12,6] (align_corners=true, mode=bilinear, size=[24, 6])",
                   "f32[2,2,12,12] (mode=bilinear, size=[6, 4])", "f32[2,2,12,6] (mode=nearest, size=[6, 8])",
                   "f32[2,2,12,1] (align_corners=true, mode=bilinear, size=[1, 6])"},
       .torch = {.line = std::string("resize2d({0}, ") + numbers,
                 .numbers = parts_of<false>,
                 .functions = resize2d_in_torch},
       .jax = {.functions = resize2d_in_jax}},
      {.name = "resize2d_grad",
       .doc = "the gradient of resize2d's x, of `size` rows and columns, from dy",
       .attributes = attributes,
       .defaults = defaults,
       .rule_for = rule<true>,
       .linear = "{0}",
       .infer = infer,
       .gradient = gradient<true>,
       .kernel = gradient_kernel,
       .workspace =
           [](const KernelCall& call) {
             return call.operands[0].shape[3] * tap_bytes +
                    call.loop("w").extent * static_cast<std::int64_t>(sizeof(double));
           },
       .samples = {"f32[2,4,12,12] (size=[6, 6])", "f32[2,2,12,12] (mode=bilinear, size=[6, 4])",
                   "f32[2,2,24,6] (align_corners=true, mode=bilinear, size=[12, 6])",
                   "f32[2,2,6,4] (mode=bilinear, size=[12, 12])",
                   "f32[2,2,6,8] (mode=nearest, size=[12, 6])"},
       .torch = {.line = std::string("resize2d_grad({0}, ") + numbers,
                 .numbers = parts_of<true>,
                 .functions = resize2d_grad_in_torch},
       .jax = {.functions = resize2d_grad_in_jax}}};
}

}  // namespace shardwright::ops
