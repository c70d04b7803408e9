// Parts of tensors, as sessions are given and give them: a whole one need not exist anywhere.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/layout/transfer.h"

namespace shardwright {

/// All of a tensor.
Box whole_box(const Shape& shape);

/// Takes `part` out of `boxes`, which do not overlap; nor does what is left of them.
void cut_out(std::vector<Box>& boxes, const Box& part);

/// Of a tensor that passes through memory block by block.
constexpr std::int64_t elements_at_once = 1 << 20;

/// Calls `use(block)` for blocks of `part`, cut along its first dim that is longer than 1, so that each is one run of it:
/// of at most so many elements, unless one row has more.
template <class F>
void for_each_block(const Box& part, std::int64_t elements, F use) {
  if (is_empty(part)) return;
  const auto d = static_cast<std::size_t>(
      std::ranges::find_if(part.extent, [](std::int64_t e) { return e > 1; }) - part.extent.begin());
  if (d == part.extent.size()) return use(part);
  const std::int64_t rows = part.extent[d];
  const std::int64_t at_once = std::max<std::int64_t>(1, elements / (element_count(part.extent) / rows));
  Box block = part;
  for (std::int64_t row = 0; row < rows; row += at_once) {
    block.offset[d] = part.offset[d] + row;
    block.extent[d] = std::min(at_once, rows - row);
    use(block);
  }
}

/// `[0:2, 4:8]`: from, and up to but without.
std::string to_text(const Box& box);

/// The part `where` of a larger tensor.
struct TensorPart {
  Box where;
  Tensor tensor;
};

/// Of each input of a step those parts that somebody has. Parts may overlap, as stages may cut an input in different ways;
/// what is in several is the same in all of them.
using BatchParts = std::map<std::string, std::vector<TensorPart>>;

/// The part `where` of the tensor of this name.
struct NamedBox {
  std::string name;
  Box where;
  bool operator==(const NamedBox&) const = default;
};

/// Throws: Error if `where` is no part of a tensor of type `whole`, or if `part` does not have its type.
void check_part(std::string_view name, const Type& whole, const Box& where, const Type& part);

}  // namespace shardwright
