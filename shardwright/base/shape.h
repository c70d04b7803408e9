// Shapes of tensors: extents per dim, outermost first; row-major everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shardwright {

using Shape = std::vector<std::int64_t>;

/// Number of elements; 1 for a scalar. Throws: Error beyond 2^53 of them (so bytes fit, too) or 32 dims.
std::int64_t element_count(std::span<const std::int64_t> shape);

/// Row-major strides in elements.
Shape strides_of(std::span<const std::int64_t> shape);

/// `[4, 8]`; a scalar is `[]`.
std::string to_text(const Shape& shape);

/// The broadcast of two shapes, right-aligned as in numpy; nothing if they do not fit.
std::optional<Shape> broadcast_shape(std::span<const std::int64_t> a, std::span<const std::int64_t> b);

}  // namespace shardwright
