// Folds of many elements into one, in vector code: to be called inside `vectorized`.
//
// A compiler keeps the order of floating-point sums, so a loop that adds into one number is not vector code.
// Here 32 lanes are folded side by side and then each half with the other. Sums are kept in double (those of
// integers in i64), which costs little beside reading the elements: small integers add up exactly in any order,
// and a long row of floats loses nothing.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "shardwright/ops/types.h"
#include "shardwright/ops/wrapping.h"

namespace shardwright::ops {

struct Sum {
  template <class C>
  using Kept = Accumulator<C>;  // the type in which elements of type C are folded
  template <class A>
  static constexpr A start = A(0);
  template <class A>
  A operator()(A a, A b) const {
    return wrapping_sum(a, b);
  }
};

/// A NaN among the elements is the result.
struct Largest {
  template <class C>
  using Kept = C;
  template <class A>
  static constexpr A start = std::numeric_limits<A>::has_infinity ? -std::numeric_limits<A>::infinity()
                                                                  : std::numeric_limits<A>::lowest();
  template <class A>
  A operator()(A a, A b) const {
    return a > b || a != a ? a : b;
  }
};

/// F over element(0), ..., element(n - 1).
template <class F, class E>
auto fold(std::int64_t n, E element) {
  using A = typename F::template Kept<decltype(element(0))>;
  constexpr std::int64_t lanes = 32;
  constexpr F f;
  A rest = F::template start<A>;
  std::int64_t i = 0;
  if (n >= lanes) {
    std::array<A, lanes> lane;
    for (std::int64_t l = 0; l < lanes; ++l) lane[static_cast<std::size_t>(l)] = F::template start<A>;
    for (; i + lanes <= n; i += lanes)
      for (std::int64_t l = 0; l < lanes; ++l) {
        A& a = lane[static_cast<std::size_t>(l)];
        a = f(a, static_cast<A>(element(i + l)));
      }
    for (std::size_t half = lanes / 2; half > 0; half /= 2)
      for (std::size_t l = 0; l < half; ++l) lane[l] = f(lane[l], lane[l + half]);
    rest = lane[0];
  }
  for (; i < n; ++i) rest = f(rest, static_cast<A>(element(i)));
  return rest;
}

}  // namespace shardwright::ops
