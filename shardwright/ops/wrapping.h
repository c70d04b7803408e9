// Integers that wrap around where a result is too large, as in numpy: data may hold any numbers, and C++ leaves the
// sum of two large ones undefined.
#pragma once

#include <type_traits>

namespace shardwright::ops {

/// f(a, b) of two numbers of type T.
template <class T, class F>
constexpr T wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(
        f(static_cast<std::make_unsigned_t<T>>(a), static_cast<std::make_unsigned_t<T>>(b)));
  else
    return f(a, b);
}

template <class T>
constexpr T wrapping_sum(T a, T b) {
  return wrapping(a, b, [](auto x, auto y) { return x + y; });
}

}  // namespace shardwright::ops
