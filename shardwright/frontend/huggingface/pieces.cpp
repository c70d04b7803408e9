#include "shardwright/frontend/huggingface/pieces.h"

#include <utility>

namespace shardwright::huggingface {
namespace {

Shape strides_of(const Shape& shape) {
  Shape out(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) out[d - 1] = out[d] * shape[d];
  return out;
}

std::int64_t offset_of(const Box& part, const Box& whole) {
  const Shape strides = strides_of(whole.extent);
  std::int64_t out = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) out += (part.offset[d] - whole.offset[d]) * strides[d];
  return out;
}

/// By dim of ours behind those of size 1 that theirs have not: as theirs has it.
void swap_last(Shape& shape) { std::swap(shape[shape.size() - 1], shape[shape.size() - 2]); }

}  // namespace

Box theirs_of(const TensorPiece& piece, const Box& part) {
  const auto extra = static_cast<std::ptrdiff_t>(piece.ours.extent.size() - piece.theirs.extent.size());
  Box out{Shape(part.offset.begin() + extra, part.offset.end()),
          Shape(part.extent.begin() + extra, part.extent.end())};
  for (std::size_t d = 0; d < out.offset.size(); ++d)
    out.offset[d] -= piece.ours.offset[d + static_cast<std::size_t>(extra)];
  if (piece.is_transposed) swap_last(out.offset), swap_last(out.extent);
  for (std::size_t d = 0; d < out.offset.size(); ++d) out.offset[d] += piece.theirs.offset[d];
  return out;
}

Piece copy_of(const TensorPiece& piece, const Box& part, const Box& theirs, const Box& ours) {
  Shape strides = strides_of(theirs.extent);
  if (piece.is_transposed) swap_last(strides);
  strides.insert(strides.begin(), piece.ours.extent.size() - piece.theirs.extent.size(), 0);
  return {.source = 0,
          .from_offset = offset_of(theirs_of(piece, part), theirs),
          .to_offset = offset_of(part, ours),
          .extent = part.extent,
          .from_strides = std::move(strides),
          .to_strides = strides_of(ours.extent)};
}

Piece turned_round(Piece piece) {
  std::swap(piece.from_offset, piece.to_offset);
  std::swap(piece.from_strides, piece.to_strides);
  return piece;
}

}  // namespace shardwright::huggingface
