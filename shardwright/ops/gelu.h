// The tanh form of gelu, y = x P(X <= x) with X standard normal, of one element.
#pragma once

#include <numbers>

#include "shardwright/ops/math.h"

namespace shardwright::ops {

/// The tanh form takes P = (1 + tanh u) / 2 = sigmoid(2u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class C>
struct GeluInner {
  C probability, slope;  // P, and d 2u / dx
  explicit GeluInner(C x) {
    const C c = 2 * std::numbers::sqrt2_v<C> * std::numbers::inv_sqrtpi_v<C>;
    probability = math::sigmoid(c * (x + C(0.044715) * x * x * x));
    slope = c * (C(1) + C(3 * 0.044715) * x * x);
  }
};

constexpr auto gelu_tanh = [](auto x) { return x * GeluInner<decltype(x)>(x).probability; };

constexpr auto gelu_tanh_derivative = [](auto x) {
  const GeluInner<decltype(x)> in(x);
  return in.probability + x * in.probability * (1 - in.probability) * in.slope;
};

}  // namespace shardwright::ops
