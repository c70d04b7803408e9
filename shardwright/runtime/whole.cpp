#include "shardwright/runtime/whole.h"

#include <numeric>
#include <utility>

namespace shardwright {

Piece from_whole(const Shape& whole, const Box& where) {
  Piece p{.extent = where.extent, .from_strides = strides_of(whole), .to_strides = strides_of(where.extent)};
  p.from_offset =
      std::inner_product(where.offset.begin(), where.offset.end(), p.from_strides.begin(), std::int64_t{0});
  return p;
}

Piece to_whole(const Shape& whole, const Box& where) {
  Piece p = from_whole(whole, where);
  std::swap(p.from_offset, p.to_offset);
  std::swap(p.from_strides, p.to_strides);
  return p;
}

}  // namespace shardwright
