// Element types and the one dispatch over them.
//
// f16 and bf16 are storage types: kernels compute in float and round when they store (round to nearest even).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace shardwright {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i32, i64, u8, boolean };

/// IEEE half precision as stored; arithmetic goes through float. The conversions are branch-free, so that loops
/// over them become vector code on any machine; they round as the hardware does.
struct F16 {
  std::uint16_t bits = 0;
  F16() = default;
  F16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t magnitude = u & 0x7fffffffU;
    const std::uint32_t normal = (magnitude + 0xc8000fffU + ((magnitude >> 13) & 1U)) >> 13;
    // Adding 1/2 leaves the bits of a subnormal half at the lower end of the sum, rounded.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
    std::uint32_t half = magnitude < 0x38800000U ? subnormal : normal;
    half = magnitude >= 0x47800000U ? 0x7c00U : half;
    half = magnitude > 0x7f800000U ? nan : half;
    bits = static_cast<std::uint16_t>(half | ((u >> 16) & 0x8000U));
  }
  operator float() const {
    const std::uint32_t magnitude = (std::uint32_t{bits} & 0x7fffU) << 13;
    const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    const std::uint32_t special = magnitude | 0x7f800000U | (magnitude > 0x0f800000U ? 0x400000U : 0U);
    const std::uint32_t whole = magnitude >= 0x0f800000U ? special : scaled;
    return std::bit_cast<float>(whole | (std::uint32_t{bits} & 0x8000U) << 16);
  }
};

/// The upper half of a float, rounded to nearest even.
struct BF16 {
  std::uint16_t bits = 0;
  BF16() = default;
  BF16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const bool is_nan = (u & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(is_nan ? (u >> 16) | 0x40U : (u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);
std::optional<DType> dtype_of(std::string_view name);

inline bool is_floating(DType t) {
  return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16;
}

/// The DType of a C++ element type.
template <class T>
constexpr DType dtype_for();
template <>
constexpr DType dtype_for<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_for<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_for<F16>() {
  return DType::f16;
}
template <>
constexpr DType dtype_for<BF16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_for<std::int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_for<std::int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_for<std::uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_for<bool>() {
  return DType::boolean;
}

/// Calls `f(std::type_identity<T>{})` with the C++ type of `dtype`.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f64: return f(std::type_identity<double>{});
    case DType::f16: return f(std::type_identity<F16>{});
    case DType::bf16: return f(std::type_identity<BF16>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::u8: return f(std::type_identity<std::uint8_t>{});
    case DType::boolean: break;
  }
  return f(std::type_identity<bool>{});
}

/// The type in which a kernel computes with elements of type T: float for the 16-bit types.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float, T>;

}  // namespace shardwright
