// Kernels on images in blocks of channels, [batch, channels / lanes, rows, columns, lanes].
//
// Their innermost loops run over the lanes of a pixel, which make one or two vectors: the number is known when they
// are compiled. Where the sums of a pixel are kept over the pixels, `#pragma GCC unroll 1` keeps the compiler from
// taking the loop for sixteen numbers before it could take it for one vector. (Vectors as a type of the language would
// be cut to what every x86-64 has before `vectorized` can say otherwise.)
#pragma once

#include <optional>

#include "shardwright/passes/formats.h"
#include "shardwright/runtime/backend/cpu/rows.h"

namespace shardwright::cpu {

/// Formats of these kernels, if `op` is one of theirs: any block of 8 or 16 channels for images, row-major for what
/// there is once per channel.
std::optional<Formats> normalization_formats(const OpDef& op, const KernelCall& call);
std::optional<Formats> pooling_formats(const OpDef& op, const KernelCall& call);

/// batch_norm made by rows of pixels; nothing if the call is another or its x is not in blocks.
Rows blocked_batch_norm_rows(const FusedCall& call);
/// The other calls of a batch norm, and those of pooling; nothing if the call is none of them or not in blocks.
PreparedKernel blocked_normalization(const FusedCall& call);
PreparedKernel blocked_pooling(const FusedCall& call);

/// An image tensor in blocks.
struct Blocks {
  std::int64_t batch, blocks, rows, columns;

  Blocks(const Shape& shape, int lanes)
      : batch(shape[0]), blocks(shape[1] / lanes), rows(shape[2]), columns(shape[3]) {}
  std::int64_t pixels() const { return rows * columns; }
  std::int64_t planes() const { return batch * blocks; }
};

/// Channels in a block of an image format: 8, 16, or 0 if it is none of these.
int lanes_of(const Format& format);
/// The image formats with blocks.
std::vector<Format> image_formats();

/// Calls `use.template operator()<lanes>()` with 8 or 16.
template <class F>
auto with_lanes(int lanes, F use) {
  return lanes == 8 ? use.template operator()<8>() : use.template operator()<16>();
}

}  // namespace shardwright::cpu
