// Between a whole tensor and the part of it that a rank holds.
#pragma once

#include "shardwright/layout/transfer.h"

namespace shardwright {

/// Copies the part `where` out of a whole tensor.
Piece from_whole(const Shape& whole, const Box& where);
/// Copies it back to its place.
Piece to_whole(const Shape& whole, const Box& where);

}  // namespace shardwright
