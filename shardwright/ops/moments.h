// What normalisations over parts of one example have in common: the moments of a row, and its gradient.
//
//   x^ = (x - mean) s,  s = 1 / sqrt(variance + epsilon),  y = gamma x^ + beta
//   dx = s (g - mean g - x^ mean(g x^)) with g = gamma dy,  dgamma = sum dy x^,  dbeta = sum dy
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/last_dims.h"

namespace shardwright::ops {

/// Mean (0 unless centered) and 1 / sqrt(variance + epsilon) of one row.
template <class C>
struct Moments {
  C mean = 0;
  C scale = 1;
};

template <bool is_centered, class T, class C = Compute<T>>
Moments<C> moments_of(const T* x, std::int64_t n, double epsilon) {
  Moments<C> m;
  const double count = static_cast<double>(n);
  if constexpr (is_centered)
    m.mean = static_cast<C>(fold<Sum>(n, [x](std::int64_t i) { return static_cast<C>(x[i]); }) / count);
  const double variance = fold<Sum>(n,
                                    [x, mean = m.mean](std::int64_t i) {
                                      const C d = static_cast<C>(x[i]) - mean;
                                      return d * d;
                                    }) /
                          count;
  m.scale = static_cast<C>(1 / std::sqrt(variance + epsilon));
  return m;
}

/// mean g and mean(g x^) of one row; the mean of g only if centered.
template <class C>
struct Means {
  C g = 0;
  C gx = 0;
};

/// dx = s (g - mean g - x^ mean(g x^)). `gamma(i)` is that of element i.
template <bool is_centered, class T, class G, class C = Compute<T>>
void gradient_row(const T* dy, const T* x, G gamma, T* dx, std::int64_t n, Moments<C> m) {
  const auto g = [dy, gamma](std::int64_t i) { return static_cast<C>(dy[i]) * gamma(i); };
  const auto normal = [x, m](std::int64_t i) { return (static_cast<C>(x[i]) - m.mean) * m.scale; };
  const double count = static_cast<double>(n);
  Means<C> mean;
  if constexpr (is_centered) mean.g = static_cast<C>(fold<Sum>(n, g) / count);
  mean.gx = static_cast<C>(fold<Sum>(n, [g, normal](std::int64_t i) { return g(i) * normal(i); }) / count);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = static_cast<T>((g(i) - mean.g - normal(i) * mean.gx) * m.scale);
}

/// Operands from `first` = x on: dy before it, gamma, and beta where there is one, behind.
inline void check_weights(const Call& call, std::size_t first, std::size_t count) {
  check_count(call, count);
  check_floating(call.operands[first].dtype);
  check_epsilon(call);
  for (std::size_t i = 0; i < first; ++i) check_same_dtype(call, first, i);
  check_weight_types(call, first, first + 1, count);
}

inline double normalization_flops(const Rule& rule) {  // some eight per element
  double n = 8;
  for (const LoopDim& l : rule.loops) n *= static_cast<double>(l.size);
  return n;
}

/// The gradient operator gives those of x, gamma and, where there is one, beta.
inline std::function<std::vector<ValueId>(Gradient&)> gradient_by(std::string name) {
  return [name = std::move(name)](Gradient& g) {
    return g.call_all(name, {g.dy(), g.in(0), g.in(1)}, g.attributes());
  };
}

}  // namespace shardwright::ops
