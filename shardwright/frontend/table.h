// What tables for people are made of: aligned columns, and quantities with units.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/quantity.h"  // bytes_text, seconds_text

namespace shardwright {

/// The first is the heading.
using Rows = std::vector<std::vector<std::string>>;

/// Columns in [begin, end) hold numbers and stand at the right, all others at the left; the last is not padded.
struct NumberColumns {
  std::size_t begin = 0;
  std::size_t end = 0;
};
std::string aligned(const Rows& rows, const NumberColumns& numbers);
/// Of the lines that `aligned` makes.
std::size_t width_of(const Rows& rows);

/// Parts per dim of each input as the seeds write them; equal neighbours are counted: `((8,1),(1,4))`, `((8,1) x3)`.
std::string integers_text(const std::vector<std::vector<std::int64_t>>& parts);

/// Names that differ in numbers only as few: `layers.0-79.norm1`. Returns groups of indices with what to call each,
/// in the order of their first members.
struct FoldedName {
  std::string name;
  std::vector<std::size_t> members;
};
std::vector<FoldedName> folded(const std::vector<std::string>& names);

/// `name` with `#` in place of each number.
std::string without_numbers(const std::string& name);

}  // namespace shardwright
