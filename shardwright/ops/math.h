// exp, log, tanh, erf and the like for float, written without branches and calls, so that loops over them become
// vector code inside `vectorized` (base/vectorize.h). double keeps the functions of std.
//
// Largest errors in ulp: exp 1.0, log 1.1, erf 1.1, tanh 1.3, sigmoid 2.5 (tests/ops/math_test.cpp); infinities,
// NaN and subnormal numbers come out as of std. exp, log and tanh approximate as Cephes does (S. Moshier), log's and erf's
// polynomials are N. Juffa's. Every choice is a select of two values, both of which are computed.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace shardwright::ops::math {

/// e^x = 2^n e^r with n = round(x / log 2), so that |r| <= log(2) / 2.
inline float exp(float x) {
  constexpr float magic = 12582912.0F;  // 1.5 * 2^23: adding it leaves a rounded integer in the low bits
  x = x > 89.0F ? 89.0F : x;            // beyond are infinity ...
  x = x < -104.0F ? -104.0F : x;        // ... and zero; NaN stays
  const float shifted = x * 1.44269504F + magic;
  const float n = shifted - magic;
  const float r = x - n * 0.693359375F - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  // 2^n in two factors, for it may be no normal number where the product is one, or subnormal.
  const auto power = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4B400000U);
  const std::int32_t half = power >> 1;
  const auto two_to = [](std::int32_t k) {
    return std::bit_cast<float>((static_cast<std::uint32_t>(k) + 127U) << 23);
  };
  return p * two_to(half) *
         two_to(
             static_cast<std::int32_t>(static_cast<std::uint32_t>(power) - static_cast<std::uint32_t>(half)));
}

/// log x = e log 2 + log(1 + m) with x = 2^e (1 + m), -1/3 <= m < 1/3.
inline float log(float x) {
  constexpr std::uint32_t two_thirds = 0x3F2AAAABU;
  const bool is_subnormal = x < 1.17549435e-38F;
  const float normal = is_subnormal ? x * 8388608.0F : x;
  const std::uint32_t above = std::bit_cast<std::uint32_t>(normal) - two_thirds;
  const std::int32_t e = static_cast<std::int32_t>(above) >> 23;
  const float m = std::bit_cast<float>((above & 0x007FFFFFU) + two_thirds) - 1.0F;
  const float s = m * m;
  float r = -0.130310059F, t = 0.140869141F;
  r = r * s - 0.121483512F;
  t = t * s + 0.139814854F;
  r = r * s - 0.166846126F;
  t = t * s + 0.200120345F;
  r = r * s - 0.249996200F;
  r = t * m + r;
  r = r * m + 0.333331972F;
  r = r * m - 0.5F;
  r = r * s + m;
  r = (static_cast<float>(e) - (is_subnormal ? 23.0F : 0.0F)) * 0.693147182F + r;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  r = x == 0 ? -infinity : r;
  r = x == infinity ? x : r;
  return x >= 0 ? r : std::numeric_limits<float>::quiet_NaN();
}

/// 1 - 2 / (e^2|x| + 1) with the sign of x; near 0 a polynomial.
inline float tanh(float x) {
  const float t = std::abs(x), s = x * x;
  const float far = 1.0F - 2.0F / (exp(2.0F * t) + 1.0F);
  float p = -5.70498872745e-3F;
  p = p * s + 2.06390887954e-2F;
  p = p * s - 5.37397155531e-2F;
  p = p * s + 1.33314422036e-1F;
  p = p * s - 3.33332819422e-1F;
  const float near = p * s * t + t;
  return std::copysign(t > 0.625F ? far : near, x);
}

/// 1 - e^P(|x|) with the sign of x; near 0 a polynomial.
inline float erf(float x) {
  const float t = std::abs(x), s = x * x;
  float r = -1.72853470e-5F * t + 3.83197126e-4F;
  const float u = -3.88396438e-3F * t + 2.42546219e-2F;
  r = r * s + u;
  r = r * t - 1.06777877e-1F;
  r = r * t - 6.34846687e-1F;
  r = r * t - 1.28717512e-1F;
  r = r * t - t;
  const float far = 1.0F - exp(r);
  float q = -5.96761703e-4F;
  q = q * s + 4.99119423e-3F;
  q = q * s - 2.67681349e-2F;
  q = q * s + 1.12819925e-1F;
  q = q * s - 3.76125336e-1F;
  q = q * s + 1.28379166e-1F;
  const float near = q * t + t;
  return std::copysign(t > 0.927734375F ? far : near, x);
}

/// (e^x - 1) without loss near 0: tanh(x/2) = (e^x - 1) / (e^x + 1).
inline float expm1(float x) {
  const float e = exp(x);
  return std::abs(x) < 1 ? tanh(x / 2) * (e + 1) : e - 1;
}

/// log(1 + x) for 0 <= x <= 1, without loss near 0: what rounding 1 + x changes, the quotient undoes (W. Kahan).
inline float log1p(float x) {
  const float u = 1 + x;
  const float d = u == 1 ? 1 : u - 1;
  return u == 1 ? x : log(u) * (x / d);
}

inline double exp(double x) { return std::exp(x); }
inline double expm1(double x) { return std::expm1(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double log(double x) { return std::log(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double erf(double x) { return std::erf(x); }

/// 1 / (1 + e^-x)
template <class C>
C sigmoid(C x) {
  return 1 / (1 + exp(-x));
}

/// log(1 + e^x)
template <class C>
C softplus(C x) {
  return (x > 0 ? x : C(0)) + log1p(exp(-std::abs(x)));
}

}  // namespace shardwright::ops::math
