#include "shardwright/training/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace shardwright {
namespace {

/// Whether all bits of no exponent are set, which are those of NaN and infinity.
template <class Bits>
bool exponents_are_finite(std::span<const std::byte> bytes, Bits exponent) {
  std::size_t odd = 0;  // counted, because a loop that ends early is no vector code
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i, sizeof bits);
    odd += (bits & exponent) == exponent;
  }
  return odd == 0;
}

}  // namespace

bool is_finite(const Tensor& t) {
  switch (t.dtype()) {
    case DType::f32: return exponents_are_finite<std::uint32_t>(t.bytes(), 0x7f800000U);
    case DType::f64: return exponents_are_finite<std::uint64_t>(t.bytes(), 0x7ff0000000000000U);
    case DType::f16: return exponents_are_finite<std::uint16_t>(t.bytes(), 0x7c00U);
    case DType::bf16: return exponents_are_finite<std::uint16_t>(t.bytes(), 0x7f80U);
    default: return true;
  }
}

std::string element_text(const Shape& shape, std::size_t index) {
  if (shape.empty()) return "";
  Shape place;
  const Shape strides = strides_of(shape);
  for (std::size_t d = 0; d < shape.size(); ++d)
    place.push_back(static_cast<std::int64_t>(index) / strides[d] % shape[d]);
  return fmt::format(" at {}", to_text(place));
}

std::string infinity_in(const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, t] : tensors) {
    if (is_finite(t)) continue;
    const std::vector<double> values = to_doubles(t);
    const auto odd = std::find_if(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
    return fmt::format("'{}' holds {}{}", name, *odd,
                       element_text(t.shape(), static_cast<std::size_t>(odd - values.begin())));
  }
  return "";
}

}  // namespace shardwright
