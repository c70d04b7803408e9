#include "shardwright/base/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "shardwright/base/error.h"

namespace shardwright {

namespace {

// Every product of sizes passes here. So many elements are whole numbers as doubles, in which work and bytes are priced;
// their bytes, and sums and small multiples of those, fit into 63 bits.
constexpr std::int64_t most_elements = std::int64_t{1} << 53;
constexpr std::size_t most_dims = 32;

}  // namespace

std::int64_t element_count(std::span<const std::int64_t> shape) {
  if (shape.size() > most_dims)
    throw error("a shape of {} dims; a tensor has at most {}", shape.size(), most_dims);
  std::int64_t n = 1;
  bool is_empty = false;
  for (std::int64_t d : shape) {
    if (d < 0) throw error("shape {}: dim {} is negative", to_text(Shape(shape.begin(), shape.end())), d);
    is_empty = is_empty || d == 0;
    // Strides are products, too, where a dim of 0 stands.
    if (__builtin_mul_overflow(n, std::max<std::int64_t>(d, 1), &n) || n > most_elements)
      throw error("shape {}: more than {} elements (2^53), the most that a tensor can have",
                  to_text(Shape(shape.begin(), shape.end())), most_elements);
  }
  return is_empty ? 0 : n;
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
