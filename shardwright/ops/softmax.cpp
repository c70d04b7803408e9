// softmax and log_softmax over one dim (attribute `dim`, default the last), which must stay whole.
//
//   y = e^(x - m) / s,  log y = x - m - log s,   m = max x,  s = sum e^(x - m)
//   dx = y (dy - sum dy y)          and for log_softmax     dx = dy - e^y sum dy

#include <algorithm>
#include <array>
#include <cmath>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/math.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::string tensor_with_whole_dim(const Call& call) {
  const Shape& shape = call.operands[0].shape;
  const std::size_t whole = dim_of(call.attributes.integer("dim", -1), shape);
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < shape.size(); ++d) dims.push_back(loop_name(d, d == whole ? "^" : ""));
  return tensor_text(dims);
}

std::string rule(const Call& call) { return fmt::format("{0} -> {0}", tensor_with_whole_dim(call)); }
std::string gradient_rule(const Call& call) {
  return fmt::format("{0}, {0} -> {0}", tensor_with_whole_dim(call));
}

template <std::size_t operands>
std::vector<Type> infer(const Call& call) {
  Type type = common_type(call, operands);
  dim_of(call.attributes.integer("dim", -1), type.shape);
  return {std::move(type)};
}

Lines lines_of(const KernelCall& call) {
  const Shape& shape = call.operands[0].shape;
  return {shape, dim_of(call.attributes.integer("dim", -1), shape)};
}

/// Where elements are stored as they are computed, e^(x - m) waits in the result for its sum.
template <bool is_log, class T>
constexpr bool keeps_exponentials = !is_log && std::is_same_v<T, Compute<T>>;

/// One line whose elements are neighbours. The result may overwrite the operand.
template <bool is_log, class T>
void softmax_row(const T* x, T* y, std::int64_t length) {
  using C = Compute<T>;
  const C largest = fold<Largest>(length, [x](std::int64_t c) { return static_cast<C>(x[c]); });
  const auto power = [x, largest](std::int64_t c) { return math::exp(static_cast<C>(x[c]) - largest); };
  double sum = 0;
  if constexpr (keeps_exponentials<is_log, T>) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < length; ++c) y[c] = power(c);
    sum = fold<Sum>(length, [y](std::int64_t c) { return y[c]; });
  } else {
    sum = fold<Sum>(length, power);
  }
  const C log_sum = largest + static_cast<C>(std::log(sum)), scale = static_cast<C>(1 / sum);
#pragma GCC ivdep
  for (std::int64_t c = 0; c < length; ++c)
    if constexpr (is_log)
      y[c] = static_cast<T>(static_cast<C>(x[c]) - log_sum);
    else
      y[c] = static_cast<T>((keeps_exponentials<is_log, T> ? static_cast<C>(y[c]) : power(c)) * scale);
}

/// How many lines that stand side by side are computed together.
constexpr std::int64_t side_by_side = 128;

/// `count` lines that stand side by side, `step` from element to element of each.
template <bool is_log, class T>
void softmax_columns(const T* x, T* y, std::int64_t length, std::int64_t step, std::int64_t count) {
  using C = Compute<T>;
  std::array<C, side_by_side> most, scales;
  std::array<double, side_by_side> sums{};
  most.fill(Largest::start<C>);
  C *const largest = most.data(), *const scale = scales.data();
  double* const sum = sums.data();
  for (std::int64_t c = 0; c < length; ++c)
    for (std::int64_t i = 0; i < count; ++i)
      largest[i] = Largest{}(largest[i], static_cast<C>(x[c * step + i]));
  const auto power = [=](std::int64_t at, std::int64_t i) {
    return math::exp(static_cast<C>(x[at]) - largest[i]);
  };
  for (std::int64_t c = 0; c < length; ++c) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const C p = power(c * step + i, i);
      if constexpr (keeps_exponentials<is_log, T>) y[c * step + i] = p;
      sum[i] += static_cast<double>(p);
    }
  }
  for (std::int64_t i = 0; i < count; ++i)
    scale[i] = is_log ? largest[i] + static_cast<C>(std::log(sum[i])) : static_cast<C>(1 / sum[i]);
  for (std::int64_t c = 0; c < length; ++c) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = c * step + i;
      if constexpr (is_log)
        y[at] = static_cast<T>(static_cast<C>(x[at]) - scale[i]);
      else
        y[at] =
            static_cast<T>((keeps_exponentials<is_log, T> ? static_cast<C>(y[at]) : power(at, i)) * scale[i]);
    }
  }
}

template <bool is_log>
void kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    vectorized([lines = lines_of(call), x = call.operands[0].as<T>().data(),
                y = call.results[0].as<T>().data()] {
      for (std::int64_t o = 0; o < lines.outer; ++o) {
        const std::int64_t start = o * lines.length * lines.inner;
        if (lines.inner == 1)
          softmax_row<is_log>(x + start, y + start, lines.length);
        else
          for (std::int64_t at = start, left = lines.inner; left > 0;
               at += side_by_side, left -= side_by_side)
            softmax_columns<is_log>(x + at, y + at, lines.length, lines.inner, std::min(side_by_side, left));
      }
    });
  });
}

template <bool is_log, class C>
C addend(C dy, C y) {
  return is_log ? dy : dy * y;
}

template <bool is_log, class C>
C derivative(C dy, C y, C total) {
  return is_log ? dy - math::exp(y) * total : y * (dy - total);
}

template <bool is_log, class T>
void gradient_row(const T* dy, const T* y, T* dx, std::int64_t length) {
  using C = Compute<T>;
  const C total = static_cast<C>(fold<Sum>(length, [dy, y](std::int64_t c) {
    return addend<is_log>(static_cast<C>(dy[c]), static_cast<C>(y[c]));
  }));
#pragma GCC ivdep
  for (std::int64_t c = 0; c < length; ++c)
    dx[c] = static_cast<T>(derivative<is_log>(static_cast<C>(dy[c]), static_cast<C>(y[c]), total));
}

template <bool is_log, class T>
void gradient_columns(const T* dy, const T* y, T* dx, std::int64_t length, std::int64_t step,
                      std::int64_t count) {
  using C = Compute<T>;
  std::array<double, side_by_side> sums{};
  double* const sum = sums.data();
  for (std::int64_t c = 0; c < length; ++c)
    for (std::int64_t i = 0; i < count; ++i)
      sum[i] += static_cast<double>(
          addend<is_log>(static_cast<C>(dy[c * step + i]), static_cast<C>(y[c * step + i])));
  for (std::int64_t c = 0; c < length; ++c) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = c * step + i;
      dx[at] = static_cast<T>(
          derivative<is_log>(static_cast<C>(dy[at]), static_cast<C>(y[at]), static_cast<C>(sum[i])));
    }
  }
}

template <bool is_log>
void gradient_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    vectorized([lines = lines_of(call), dy = call.operands[0].as<T>().data(),
                y = call.operands[1].as<T>().data(), dx = call.results[0].as<T>().data()] {
      for (std::int64_t o = 0; o < lines.outer; ++o) {
        const std::int64_t start = o * lines.length * lines.inner;
        if (lines.inner == 1)
          gradient_row<is_log>(dy + start, y + start, dx + start, lines.length);
        else
          for (std::int64_t at = start, left = lines.inner; left > 0;
               at += side_by_side, left -= side_by_side)
            gradient_columns<is_log>(dy + at, y + at, dx + at, lines.length, lines.inner,
                                     std::min(side_by_side, left));
      }
    });
  });
}

const Attributes last_dim{{"dim", std::int64_t{-1}}};

template <bool is_log>
std::vector<OpDef> family(const std::string& name, std::string doc, std::string gradient_doc) {
  const auto gradient = [name](Gradient& g) {
    return std::vector{g.call(name + "_grad", {g.dy(), g.out()}, g.attributes())};
  };
  return {
      {
          .name = name,
          .doc = std::move(doc),
          .attributes = {"dim"},
          .defaults = last_dim,
          .rule_for = rule,
          .infer = infer<1>,
          .gradient = gradient,
          .kernel = kernel<is_log>,
          .samples = {"f32[4,6]", "f32[2,6,4] (dim=1)", "f32[6,4] (dim=0)"},
          .overwrites = {0},
          .torch = {.line = "torch." + name + "({0}, {dim})"},
          .jax = {.line = "once(lambda x: jax.nn." + name + "(x, {dim}), {0})"},
      },
      {
          .name = name + "_grad",
          .doc = std::move(gradient_doc),
          .attributes = {"dim"},
          .defaults = last_dim,
          .rule_for = gradient_rule,
          .linear = "{0}",
          .infer = infer<2>,
          .kernel = gradient_kernel<is_log>,
          .samples = {"f32[4,6], f32[4,6]", "f32[2,6,4], f32[2,6,4] (dim=1)"},
          .overwrites = {0},
          .torch = {.line = "aten._" + name + "_backward_data({0}, {1}, {dim}, {dtype})"},
          .jax = {.line =
                      is_log ? "once(lambda dy, y: dy - jnp.exp(y) * dy.sum({dim}, keepdims=True), {0}, {1})"
                             : "once(lambda dy, y: y * (dy - (dy * y).sum({dim}, keepdims=True)), {0}, {1})"},
      }};
}

}  // namespace

std::vector<OpDef> softmax() {
  std::vector<OpDef> all =
      family<false>("softmax", "y = e^x / sum of e^x over `dim`", "dx = y (dy - sum of dy y)");
  for (OpDef& op :
       family<true>("log_softmax", "y = x - log of the sum of e^x over `dim`", "dx = dy - e^y sum of dy"))
    all.push_back(std::move(op));
  return all;
}

}  // namespace shardwright::ops
