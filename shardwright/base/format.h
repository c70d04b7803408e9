// How the elements of a tensor lie in memory: row-major, or in blocks that a fast kernel likes.
//
//   aBcd16b      [a, b / 16, c, d, 16 of b]: 16 channels of a pixel beside each other
//   ABcd16b16a   [a / 16, b / 16, c, d, 16 of b, 16 of a]
//
// The letters are the tensor's dims, outermost first. A capital is a dim of which blocks stand further right, each
// with its size: what is left of the dim stands at the capital. Blocks divide their dim; nothing is padded, so a
// tensor has the same bytes in every format. The notation is oneDNN's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shardwright/base/shape.h"

namespace shardwright {

/// Row-major unless it has parts.
struct Format {
  /// `block` indices of dim `dim`; 0: what its blocks leave of it.
  struct Part {
    std::int8_t dim = 0;
    std::uint8_t block = 0;
    bool operator==(const Part&) const = default;
  };
  std::array<Part, 8> parts{};  // outermost first
  std::uint8_t count = 0;

  bool is_row_major() const { return count == 0; }
  std::span<const Part> all() const { return {parts.data(), count}; }
  /// How many indices of dim `d` lie in its blocks; 1 if it has none.
  std::int64_t block_of(std::size_t d) const;
  bool operator==(const Format&) const = default;
};

/// A tensor of `shape` can lie in `format`: it has as many dims, and blocks divide them.
bool fits(const Format& format, const Shape& shape);

/// `aBcd16b`; `row-major` has no letters of its own and is never written.
std::string to_text(const Format& format);
/// Throws: Error if this is no format. Dims in their order without blocks are row-major.
Format parse_format(std::string_view text);

/// Copies a tensor of `shape` from one format to another; the two do not overlap.
void reformat(const std::byte* from, const Format& from_format, std::byte* to, const Format& to_format,
              const Shape& shape, std::size_t element_bytes);

}  // namespace shardwright
