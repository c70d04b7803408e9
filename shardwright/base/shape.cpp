#include "shardwright/base/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "shardwright/base/error.h"

namespace shardwright {

std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (std::int64_t d : shape) {
    if (d < 0) throw error("shape {}: dim {} is negative", to_text(Shape(shape.begin(), shape.end())), d);
    if (__builtin_mul_overflow(n, d, &n))
      throw error("shape {}: more elements than fit in 63 bits", to_text(Shape(shape.begin(), shape.end())));
  }
  return n;
}

Shape strides_of(std::span<const std::int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string to_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<Shape> broadcast_shape(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1) return std::nullopt;
    out[out.size() - 1 - i] = da == 1 ? db : da;
  }
  return out;
}

}  // namespace shardwright
